"""Every request that ended has its row, or is counted as lost; and the first loss is told once."""

import csv
import dataclasses
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tokenswarm.masking import MASK
from tokenswarm.record import HealthRecord, Outcome, RequestRecord, request_from_cells
from tokenswarm.recorder import Recorder, output_line
from tokenswarm.rowfile import RecordingError
from tokenswarm.runfolder import RunFolder, RunFolderError

ROOT = Path(__file__).parent.parent
HEALTH = HealthRecord(
    at=1.0,
    worker="w1",
    users=1,
    in_flight=1,
    cpu_ratio=0.5,
    loop_lag_max_us=1,
    reads=2,
    kernel_reads=2,
    backlog=0,
    rss_bytes=1,
    clock_step_us=0,
)


@dataclasses.dataclass
class Answer:
    chunk_texts: list[str]


@dataclasses.dataclass
class Reading:
    """What the recorder looks at of a digest's Reading."""

    record: RequestRecord
    answer: Answer | None = None


def reading(
    number: int, outcome: Outcome = Outcome.OK, texts: list[str] | None = None, detail: str | None = None
) -> Any:
    chunks = () if texts is None else tuple(range(len(texts)))
    record = RequestRecord(
        request_id=f"r{number}",
        worker="w1",
        user="u1",
        task="chat",
        sent_at=1.5,
        chunk_us=chunks,
        outcome=outcome,
        detail=detail,
    )
    return Reading(record, None if texts is None else Answer(texts))


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "a")


def rows(folder: RunFolder) -> list[RequestRecord]:
    with open(folder.requests_csv("w1"), newline="", encoding="utf-8") as file:
        return [request_from_cells(cells) for cells in csv.DictReader(file)]


def test_every_outcome_has_its_row_at_once(folder: RunFolder) -> None:
    recorder = Recorder(folder, "w1")
    sent = [reading(number, outcome) for number, outcome in enumerate([*Outcome, Outcome.OK])]
    for one in sent:
        recorder.write(one)
    assert rows(folder) == [one.record for one in sent]
    assert recorder.counts == {Outcome.OK: 2, Outcome.FAILED: 1, Outcome.EMPTY: 1, Outcome.CANCELLED: 1}
    assert (recorder.rows, recorder.lost_rows, recorder.failed) == (5, 0, None)
    recorder.write_health(HEALTH)
    assert folder.health_csv("w1").read_text().splitlines()[1].startswith("1.000000,w1,1,1,0.500000,")
    recorder.close()
    assert not folder.outputs_jsonl("w1").exists()


def test_outputs_are_one_text_per_arrival_time(folder: RunFolder) -> None:
    recorder = Recorder(folder, "w1", save_outputs=True)
    recorder.write(reading(1, texts=["你", "\n", ' "quoted"', "\u2028"]))
    recorder.write(reading(2, Outcome.FAILED, texts=["half"]))
    recorder.write(reading(3, Outcome.FAILED))
    recorder.close()
    lines = folder.outputs_jsonl("w1").read_bytes().split(b"\n")
    assert lines.pop() == b""
    held = [json.loads(line) for line in lines]
    assert held == [
        {"request_id": "r1", "chunks": ["你", "\n", ' "quoted"', "\u2028"]},
        {"request_id": "r2", "chunks": ["half"]},
        {"request_id": "r3", "chunks": []},
    ]
    assert [len(one["chunks"]) for one in held] == [len(record.chunk_us) for record in rows(folder)]


def test_half_a_surrogate_pair_is_kept() -> None:
    line = output_line("r1", ["a\ud83d", "你"])
    assert line.encode()  # can be written
    assert json.loads(line) == {"request_id": "r1", "chunks": ["a\ud83d", "你"]}


def test_a_secret_that_a_server_echoes_is_not_written(folder: RunFolder) -> None:
    recorder = Recorder(folder, "w1", save_outputs=True, secrets=["s3cret-key", "", "1"])  # "1" stands everywhere
    recorder.write(
        reading(1, Outcome.FAILED, texts=["key s3cret-key?"], detail="Incorrect API key provided: s3cret-key.")
    )
    recorder.close()
    assert rows(folder)[0].detail == f"Incorrect API key provided: {MASK}."
    assert "s3cret-key" not in folder.outputs_jsonl("w1").read_text()


def test_two_workers_of_one_name_are_refused(folder: RunFolder) -> None:
    first = Recorder(folder, "w1")
    with pytest.raises(RunFolderError, match="two workers of one run cannot both be called 'w1'"):
        Recorder(folder, "w1")
    first.write(reading(1))
    assert len(rows(folder)) == 1
    first.close()


def test_after_a_failure_nothing_is_written_and_everything_counted(folder: RunFolder) -> None:
    told: list[RecordingError] = []
    recorder = Recorder(folder, "w1", save_outputs=True, on_failure=told.append)
    recorder.write(reading(1))
    append, full = recorder._requests.append, RecordingError("full")

    def refuse(row: str) -> None:
        raise full

    recorder._requests.append = refuse  # type: ignore[method-assign]
    recorder.write(reading(2, Outcome.FAILED))
    recorder._requests.append = append  # type: ignore[method-assign]
    recorder.write(reading(3))
    recorder.write_health(HEALTH)
    recorder.close()
    assert told == [full]
    assert recorder.failed is full
    assert recorder.lost_rows == 2
    assert [record.request_id for record in rows(folder)] == ["r1"]
    assert sum(recorder.counts.values()) == 3 == recorder.rows + recorder.lost_rows
    assert len(folder.outputs_jsonl("w1").read_text().splitlines()) == 1
    assert len(folder.health_csv("w1").read_text().splitlines()) == 1


def test_on_a_full_disk_rows_and_losses_add_up(folder: RunFolder) -> None:
    """A real limit of the system, met in the middle of a row."""
    code = """
        import resource, signal, sys
        from pathlib import Path
        sys.path.insert(0, "tests")
        from test_recorder import reading
        from tokenswarm.recorder import Recorder
        from tokenswarm.runfolder import RunFolder
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
        recorder = Recorder(RunFolder.attach(sys.argv[1]), "w1", on_failure=print)
        for number in range(300):
            recorder.write(reading(number, texts=["x"] * 20))
        recorder.close()
        print(recorder.rows, recorder.lost_rows)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(folder.path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    *sentences, counted = done.stdout.splitlines()
    kept, lost = map(int, counted.split())
    assert len(sentences) == 1
    assert f"The {kept} rows before it are whole" in sentences[0]
    assert kept + lost == 300
    assert kept > 20
    assert lost > 20
    assert [record.request_id for record in rows(folder)] == [f"r{number}" for number in range(kept)]
