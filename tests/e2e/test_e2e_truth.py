"""Rows against what the server itself wrote down: requests, outcomes, tokens, and when each chunk was written."""

import json
import re
import statistics
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.driving import LOCUST, SCENARIO, outcomes, recorded, request_files, rows, run_json, running, stepload
from tests.servers import llama_server, simulator_server
from tokenswarm.record import ErrorClass, Outcome, RequestRecord, Stamp
from tokenswarm.run_info import RunState

NS = 1_000_000_000
CLOCK_US = 1  # sent_at and chunk_us are whole µs
CLOSE_US = 2_000  # median distance of an arrival from its write; loopback takes tens of µs, a busy machine more


def truth_log(path: Path) -> dict[str, dict[str, Any]]:
    """Request id → the simulator's own record of it. It writes each at the request's end."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    by_id = {record["request_id"]: record for record in found if record["http_status"] is not None}
    assert len(by_id) == len(found), "a request id came twice"
    return by_id


def counter(base_url: str, name: str) -> float:
    """The server's own counter."""
    with urllib.request.urlopen(f"{base_url.removesuffix('/v1')}/metrics", timeout=30) as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}[ {{]", line))


def check_books(folder: Path, truth: dict[str, dict[str, Any]]) -> list[RequestRecord]:
    """A row for each request that the server saw, and none else; the four outcomes are all there is."""
    found = rows(folder)
    # one that we cut off in the moment it was sent: the connection was gone before the server had read it
    unseen = {row.request_id for row in found if row.outcome is Outcome.CANCELLED and row.headers_us is None} - set(
        truth
    )
    seen = [row for row in found if row.request_id not in unseen]
    assert Counter(row.request_id for row in seen) == Counter(truth.keys()), "rows are not the requests the server saw"
    assert sum(outcomes(folder).values()) == len(truth) + len(unseen)
    return seen


def check_times(found: list[RequestRecord], truth: dict[str, dict[str, Any]]) -> None:
    """Every chunk arrives when or after it was written, and by the median hardly later; none is missing or made up."""
    late_us, ttft_late_us = [], []
    for row in found:
        written = truth[row.request_id]["chunk_ns"]
        sent_ns = round(row.sent_at * 1e6) * 1000
        if row.outcome is Outcome.OK:
            assert len(row.chunk_us) == len(written)
        assert len(row.chunk_us) <= len(written)
        late = [sent_ns / 1000 + us - ns / 1000 for us, ns in zip(row.chunk_us, written, strict=False)]
        assert all(us >= -CLOCK_US for us in late), (
            f"{row.request_id}: a chunk came before it was written: {min(late)} µs"
        )
        late_us += late
        ttft_late_us += late[:1]
    assert len(late_us) > 100
    assert statistics.median(late_us) < CLOSE_US
    assert statistics.median(ttft_late_us) < CLOSE_US


def check_tokens(found: list[RequestRecord], truth: dict[str, dict[str, Any]], counted: float) -> None:
    """Tokens in our rows are those of the server's counter; of what we cut off, it says how many had been made."""
    told = sum(row.output_tokens or 0 for row in found)
    untold = [truth[row.request_id]["output_tokens"] or 0 for row in found if row.output_tokens is None]
    assert told <= counted <= told + sum(untold) + len(untold)  # one may have been in the making for each that was cut
    assert counted - told >= sum(untold) - len(untold)


@pytest.mark.parametrize("processes", [1, 2])
def test_rows_chunks_and_tokens_are_the_servers(tmp_path: Path, processes: int) -> None:
    """`locust -f …` by hand, in one process and in three: it needs no driver."""
    log, folder = tmp_path / "truth.jsonl", tmp_path / "r"
    with simulator_server("--truth-log", str(log)) as server:
        command = [*LOCUST, "-f", SCENARIO, f"--host={server.base_url}", f"--results={tmp_path}", "--run-name=r"]
        command += ["--steps=1,6", "--step-time=3s", "--warmup=1s", "--prompt-tokens=64", "--max-tokens=24"]
        command += ["--processes=2"] if processes == 2 else []
        with running(command, tmp_path / "said") as run:
            assert run.code() == 0, run.complained
            assert run.complained == ""
            assert run.left_over() == []
        counted = counter(server.base_url, "vllm:generation_tokens_total")
    truth = truth_log(log)
    found = check_books(folder, truth)
    check_times(found, truth)
    check_tokens(found, truth, counted)
    by_outcome = outcomes(folder)
    assert by_outcome[Outcome.FAILED] == by_outcome[Outcome.EMPTY] == 0
    assert by_outcome[Outcome.CANCELLED] <= 6, "those that were in flight at the end"
    assert by_outcome[Outcome.OK] > 30
    assert {row.stamp for row in found if row.chunk_us} == {Stamp.KERNEL}
    files = request_files(folder)
    assert set(files) == {"requests-preflight.csv", *(f"requests-w{index}.csv" for index in range(processes))}
    assert all(files.values()), "every process has sent"
    assert all(row.worker == name[len("requests-") : -len(".csv")] for name, file in files.items() for row in file)
    info = run_json(folder)
    assert info["state"] == RunState.COMPLETE
    assert info["scenario"]["name"] == "stepload"
    rows_of = {name: client["rows"] for name, client in info["clients"].items()}
    assert rows_of == {name[len("requests-") : -len(".csv")]: len(file) for name, file in files.items()}


EXPECTED = {  # the simulator's word for a request's end → ours
    "ok": {(Outcome.OK, None), (Outcome.CANCELLED, None)},
    "status": {(Outcome.FAILED, ErrorClass.RATE_LIMITED)},
    "error": {(Outcome.FAILED, ErrorClass.STREAM_ERROR), (Outcome.FAILED, ErrorClass.OVERLOADED)},
    "reset": {(Outcome.FAILED, ErrorClass.CONNECTION_RESET)},
    "disconnect": {(Outcome.FAILED, ErrorClass.CONNECTION_RESET)},
    "truncate": {(Outcome.FAILED, ErrorClass.STREAM_TRUNCATED)},
    "empty": {(Outcome.EMPTY, ErrorClass.EMPTY_RESPONSE)},
    "disconnected": {(Outcome.CANCELLED, None)},
}


def test_failures_are_counted_as_the_server_counts_them(tmp_path: Path) -> None:
    """Every kind of failure, two processes, by the driver: its exit code is 0, for failures are data."""
    log, folder = tmp_path / "truth.jsonl", tmp_path / "r"
    faults = ["status:code=429,every=5", "error:code=500,every=7", "reset:every=11", "disconnect:every=13"]
    faults += ["truncate:every=17", "empty:every=19"]
    flags = [part for fault in faults for part in ("--fault", f"{fault},share=0.999999")]
    with simulator_server("--truth-log", str(log), *flags) as server:
        command = stepload(tmp_path, "r", target=server.base_url, steps="8", workers="2", step_time="5s")
        with running(command, tmp_path / "said") as run:
            assert run.code() == 0, run.complained
            assert "Traceback" not in run.complained
    truth = truth_log(log)
    found = check_books(folder, truth)
    check_times(found, truth)
    wrong = [
        (row.request_id, truth[row.request_id]["outcome"], row.outcome, row.error_class, row.detail)
        for row in found
        if (row.outcome, row.error_class) not in EXPECTED[truth[row.request_id]["outcome"]]
        and not (row.outcome is Outcome.CANCELLED and truth[row.request_id]["finish_ns"] is None)
    ]
    assert wrong == []
    assert outcomes(folder)[Outcome.CANCELLED] <= 8
    assert {"status", "error", "reset", "disconnect"} <= {record["outcome"] for record in truth.values()}
    assert len(found) > 60


@pytest.mark.llama
def test_rows_and_tokens_are_llama_cpps(tmp_path: Path) -> None:
    """A real server that closes each connection after its answer although it promised to keep it: nothing fails."""
    folder = tmp_path / "r"
    with llama_server(slots=4) as server:
        command = stepload(tmp_path, "r", target=server.base_url, steps="1,4", prompt_tokens="400", max_tokens="24")
        with running(command, tmp_path / "said") as run:
            assert run.code() == 0, run.complained
            assert "Traceback" not in run.complained
        counted = counter(server.base_url, "llamacpp:tokens_predicted_total")
    found = rows(folder)
    by_outcome = outcomes(folder)
    assert by_outcome[Outcome.FAILED] == 0, [row.detail for row in found if row.detail]
    assert by_outcome[Outcome.OK] > 20  # random weights: a few answers end before they have begun
    told = sum(row.output_tokens or 0 for row in found)
    cut = by_outcome[Outcome.CANCELLED]
    assert cut <= 4
    assert told <= counted <= told + cut * 24
    assert all(row.output_tokens is not None for row in found if row.outcome is Outcome.OK)


@pytest.mark.slow
def test_a_server_that_dies_is_measured(tmp_path: Path) -> None:
    """Every request after its death fails, the run goes on to its end, its exit code is 0, and the table says so."""
    import os
    import signal

    folder = tmp_path / "r"
    with simulator_server() as server:
        command = stepload(tmp_path, "r", target=server.base_url, steps="2,3", step_time="4s")
        with running(command, tmp_path / "said") as run:
            run.wait_until(recorded(folder, least=2), "rows")
            os.kill(server.pid, signal.SIGKILL)
            assert run.code() == 0, run.complained
            assert "Traceback" not in run.complained
            said = run.said
    classes = Counter(row.error_class for row in rows(folder) if row.outcome is Outcome.FAILED)
    assert classes[ErrorClass.CONNECT_FAILED] > 3
    assert run_json(folder)["state"] == RunState.COMPLETE
    assert re.search(r"[1-9]\d* failed", said)
