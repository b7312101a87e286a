"""Where a worker records, and what becomes of its files: with a master that takes, refuses, or says nothing."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.test_plan import PLAN
from tokenswarm import clock_offset, handover, incoming, pieces
from tokenswarm.clock_offset import SAME_CLOCK
from tokenswarm.far_worker import FarWorker, place
from tokenswarm.incoming import Incoming
from tokenswarm.plan import Plan
from tokenswarm.runfolder import RunFolder


class Runner:
    """Locust's at a worker; `answer` is the master's to a message, None where it says nothing."""

    def __init__(self, answer: Callable[[str, Any], Any]) -> None:
        self._answer = answer
        self._listeners: dict[str, Callable[..., None]] = {}
        self.sent: list[str] = []

    def register_message(self, message: str, listener: Callable[..., None]) -> None:
        self._listeners[message] = listener

    def send_message(self, message: str, data: Any) -> None:
        self.sent.append(message)
        told = self._answer(message, data)
        if told is not None:
            self._listeners[message](environment=None, msg=types.SimpleNamespace(data=told))


def plan_of(folder: RunFolder, started_at: float) -> Plan:
    return Plan.from_dict(
        {**PLAN.as_dict(), "run_path": str(folder.path), "started_at": started_at, "origin": "master"}
    )


@pytest.fixture
def master(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "master", "r")
    folder.write_run({"started_at": 5.5})
    return folder


def test_it_records_in_the_runs_folder_where_it_sees_it(tmp_path: Path, master: RunFolder) -> None:
    assert place(plan_of(master, 5.5), "w1", tmp_path / "own").path == master.path
    assert not (tmp_path / "own").exists()


def test_a_run_of_that_name_from_another_day_is_not_it(tmp_path: Path, master: RunFolder) -> None:
    assert place(plan_of(master, 5.25), "w1", tmp_path / "own").path == tmp_path / "own" / "r-w1"


def test_what_an_earlier_run_has_left_is_not_touched(tmp_path: Path, master: RunFolder) -> None:
    master.run_json.unlink()
    found = [place(plan_of(master, 5.5), "w1", tmp_path / "own").run_id for _ in range(3)]
    assert found == ["r-w1", "r-w1-2", "r-w1-3"]


def test_a_long_name_has_room_for_the_worker(tmp_path: Path, master: RunFolder) -> None:
    plan = Plan.from_dict({**plan_of(master, 1.0).as_dict(), "run_id": "x" * 100})
    assert place(plan, "w12", tmp_path / "own").run_id == "x" * 80 + "-w12"


class Ended:
    """A far worker that has closed its files `requests` and `health`."""

    def __init__(self, tmp_path: Path, master: RunFolder, answer: Callable[[str, Any], Any]) -> None:
        self.runner = Runner(answer)
        self.far = FarWorker(self.runner, tmp_path / "own", "another process")
        self.folder = self.far.place(plan_of(master, 1.0), "w1")
        self.folder.requests_csv("w1").write_text("a\n" * 900_000)  # two pieces
        self.folder.health_csv("w1").write_text("b\n")
        self.told: list[str | None] = []
        self.far.end(self.folder, "w1", "r", lambda: self.told.append(self.far.kept_at))
        self.far.wait()


def test_all_comes_over_and_the_copy_goes(tmp_path: Path, master: RunFolder) -> None:
    into = Incoming(master)

    def answer(message: str, data: Any) -> Any:
        return clock_offset.answer(data) if message == clock_offset.MESSAGE else incoming.answer(into, "w1", data)

    ended = Ended(tmp_path, master, answer)
    assert ended.told == [None], "told once, with nothing kept"
    assert ended.far.clock is not None
    assert ended.far.clock.uncertainty_s < 1
    assert ended.runner.sent.count(pieces.MESSAGE) == 3
    assert master.requests_csv("w1").read_text() == "a\n" * 900_000
    assert master.health_csv("w1").read_text() == "b\n"
    assert not ended.folder.path.exists()


def test_what_is_refused_is_kept_and_said(
    tmp_path: Path, master: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = Ended(
        tmp_path, master, lambda message, data: {"refused": "No room."} if message == pieces.MESSAGE else None
    )
    (kept,) = ended.told
    assert kept is not None
    assert kept.endswith(f":{tmp_path / 'own' / 'r-w1'}")
    assert ended.far.why_kept == "No room."
    assert ended.far.clock is None, "the master did not say what time it is"
    assert ended.folder.requests_csv("w1").stat().st_size == 1_800_000
    said = capsys.readouterr().err
    assert (
        f"No room. They are kept in {tmp_path / 'own' / 'r-w1'}: copy its files into {master.path} on the master's machine"
        in said
    )


def test_an_answer_that_is_lost_is_asked_for_again(
    tmp_path: Path, master: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "ANSWER_LIMIT_S", 0.01)
    into, heard = Incoming(master), []

    def answer(message: str, data: Any) -> Any:
        if message == clock_offset.MESSAGE:
            return None
        heard.append(incoming.answer(into, "w1", data))
        return heard[-1] if len(heard) % 2 == 0 else None  # each is taken, every other answer is lost

    ended = Ended(tmp_path, master, answer)
    assert ended.told == [None]
    assert len(heard) == 6
    assert master.requests_csv("w1").stat().st_size == 1_800_000


def test_a_master_that_is_silent(tmp_path: Path, master: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "ANSWER_LIMIT_S", 0.01)
    ended = Ended(tmp_path, master, lambda message, data: None)
    assert ended.runner.sent.count(pieces.MESSAGE) == handover.TRIES
    assert ended.far.why_kept is not None
    assert "has not answered" in ended.far.why_kept
    assert ended.folder.health_csv("w1").exists()


def test_one_that_was_forked_has_its_masters_clock_and_folder(tmp_path: Path, master: RunFolder) -> None:
    runner = Runner(lambda message, data: None)
    far = FarWorker(runner, tmp_path / "own", "master")
    folder = far.place(plan_of(master, 5.5), "w1")
    told: list[bool] = []
    far.begin(lambda: told.append(False))
    far.end(folder, "w1", "r", lambda: told.append(True))
    assert (told, far.clock, far.kept_at, runner.sent) == ([True], SAME_CLOCK, None, [])
