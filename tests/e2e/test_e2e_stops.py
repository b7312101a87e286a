"""A run that ends early: by Ctrl-C, a signal, a killed process. Nothing is lost, nothing is left over."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.e2e.driving import (
    LOCUST,
    SCENARIO,
    Run,
    outcomes,
    recorded,
    request_files,
    rows,
    run_json,
    running,
    stepload,
)
from tests.servers import Server
from tokenswarm.record import Outcome
from tokenswarm.run_info import RunState
from tokenswarm.runfolder import SUMMARY

INTERRUPTED = 3
LONG = {"step_time": "60s", "max_tokens": "100"}  # two seconds an answer: some are in mid answer after a first round


def check_interrupted(run: Run, folder: Path, *, users: int | None) -> None:
    """`users`: so many were in mid answer; None where that is not known."""
    assert run.code() == INTERRUPTED, run.complained
    assert "Traceback" not in run.complained
    assert run.left_over() == []
    assert run_json(folder)["state"] == RunState.INTERRUPTED
    assert all(not client["lost"] for client in run_json(folder)["clients"].values())
    found = rows(folder)
    assert len({row.request_id for row in found}) == len(found)
    if users is not None:
        assert 1 <= outcomes(folder)[Outcome.CANCELLED] <= users
    assert (folder / SUMMARY).is_file(), f"not analysed: {run.said}"
    assert run.said.rstrip().endswith(str(folder))


@pytest.mark.parametrize(
    ("workers", "number", "group", "times"),
    [("1", signal.SIGINT, True, 1), ("2", signal.SIGINT, False, 2), ("2", signal.SIGTERM, False, 1)],
    ids=["terminal", "twice-two-workers", "sigterm-two-workers"],
)
def test_stopped_in_mid_step(
    tmp_path: Path, simulator: Server, workers: str, number: int, group: bool, times: int
) -> None:
    folder = tmp_path / "r"
    command = stepload(tmp_path, "r", target=simulator.base_url, steps="4", workers=workers, **LONG)
    with running(command, tmp_path / "said") as run:
        run.wait_until(recorded(folder, least=4), "rows")
        for _ in range(times):
            run.interrupt(number, group=group)
            time.sleep(0.1)
        check_interrupted(run, folder, users=4)
        assert len(request_files(folder)) == 1 + int(workers)
        assert (folder / "steps.csv").read_text().count("\n") == 2, "the step that was cut has its row"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_stopped_while_users_start(tmp_path: Path, simulator: Server, workers: str) -> None:
    folder = tmp_path / "r"
    command = stepload(tmp_path, "r", target=simulator.base_url, steps="30", workers=workers, **LONG)
    with running(command, tmp_path / "said") as run:
        run.wait_until(lambda: (folder / "run.json").exists(), "folder")
        run.interrupt()
        check_interrupted(run, folder, users=None)


def test_stopped_in_preflight(tmp_path: Path) -> None:
    """A server that takes the connection and says nothing: whenever Ctrl-C comes, nothing is left."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        with (
            running(stepload(tmp_path, "a", target=target), tmp_path / "a-said") as begun,
            running(stepload(tmp_path, "b", target=target, workers="2"), tmp_path / "b-said") as forked,
            running(stepload(tmp_path, "c", target=target), tmp_path / "c-said") as early,
        ):
            early.wait_until(early.family, "Locust")
            early.interrupt()  # Locust is still importing
            silent.settimeout(60)
            held = [silent.accept() for _ in range(2)]  # both wait for an answer now
            begun.interrupt(group=True)
            forked.interrupt()
            for run in (begun, forked, early):
                assert run.code() == INTERRUPTED, run.complained
                assert run.complained == ""
                assert run.left_over() == []
            assert not {"a", "b", "c"} & set(os.listdir(tmp_path))
            for connection, _ in held:
                connection.close()


def test_driver_is_killed(tmp_path: Path) -> None:
    """kill -9 of the driver: Locust, its workers and the server end by themselves, and what they had is whole."""
    folder = tmp_path / "r"
    with running(stepload(tmp_path, "r", target="sim", steps="4", workers="2", **LONG), tmp_path / "said") as run:
        run.wait_until(recorded(folder, least=4), "rows")
        assert len(run.family()) >= 4, "a server, a master and two workers"
        run.interrupt(signal.SIGKILL)
        assert run.left_over(within_s=15) == []
        assert run_json(folder)["state"] == RunState.INTERRUPTED
        assert "Traceback" not in run.complained
        rows(folder)


@pytest.mark.slow
def test_worker_is_killed(tmp_path: Path, simulator: Server) -> None:
    """kill -9 of one of two workers: the run goes on to its end and says who is missing."""
    folder = tmp_path / "r"
    command = stepload(tmp_path, "r", target=simulator.base_url, steps="2,4", step_time="5s", workers="2")
    with running(command, tmp_path / "said") as run:
        run.wait_until(recorded(folder, least=4), "rows")
        workers = [child for child in run.family() if child.parent().pid != run.process.pid]
        assert len(workers) == 2
        workers[0].send_signal(signal.SIGKILL)
        assert run.code() == 0, run.complained
        assert run.left_over() == []
        clients = run_json(folder)["clients"]
        del clients["preflight"]
        assert {client["pid"]: client["lost"] for client in clients.values()} == {
            workers[0].pid: True,
            workers[1].pid: False,
        }
        assert run_json(folder)["state"] == RunState.COMPLETE
        found = rows(folder)
        assert len({row.request_id for row in found}) == len(found)
        living = next(name for name, client in clients.items() if not client["lost"])
        assert clients[living]["rows"] == len(request_files(folder)[f"requests-{living}.csv"])


def test_locust_by_hand_is_stopped_by_a_terminal(tmp_path: Path, simulator: Server) -> None:
    """Ctrl-C reaches master and workers at once."""
    command = [*LOCUST, "-f", SCENARIO, "--processes=2", f"--host={simulator.base_url}", f"--results={tmp_path}"]
    command += ["--run-name=r", "--steps=4", "--step-time=60s", "--prompt-tokens=64", "--max-tokens=100"]
    folder = tmp_path / "r"
    with running(command, tmp_path / "said") as run:
        run.wait_until(recorded(folder, least=4), "rows")
        run.interrupt(group=True)
        assert run.code() == INTERRUPTED, run.complained
        assert run.left_over() == []
        assert "Traceback" not in run.complained
        assert run_json(folder)["state"] == RunState.INTERRUPTED
        assert 1 <= outcomes(folder)[Outcome.CANCELLED] <= 4


@pytest.mark.slow
def test_killed_locust_leaves_a_run_that_can_be_analysed(tmp_path: Path, simulator: Server) -> None:
    folder = tmp_path / "r"
    command = stepload(tmp_path, "r", target=simulator.base_url, steps="4", workers="2", **LONG)
    with running(command, tmp_path / "said") as run:
        run.wait_until(recorded(folder, least=4), "rows")
        next(child for child in run.family() if child.ppid() == run.process.pid).kill()
        assert run.code() == 4
        assert "signal 9" in run.complained
        assert "Traceback" not in run.complained
        assert run.left_over() == []
        rows(folder)
