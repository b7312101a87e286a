"""Workers that do not see the run's folder: their rows come to it all the same, or it is said where they are."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.driving import (
    LOCUST,
    SCENARIO,
    Run,
    analysed,
    outcomes,
    recorded,
    request_files,
    rows,
    run_json,
    running,
)
from tests.e2e.test_e2e_truth import check_books, check_times, truth_log
from tests.servers import Server, simulator_server
from tests.web.ui import locust_ui
from tokenswarm.record import Outcome
from tokenswarm.run_info import RunState
from tokenswarm.stepload import free_port

HIDE = 'mount -t tmpfs none "$0" && exec "$@"'  # in a mount namespace of its own: the master's folder is empty there
LOAD = ("--steps=1,6", "--step-time=4s", "--warmup=1s", "--prompt-tokens=64", "--max-tokens=24", "--run-name=r")

LONG = ("--steps=6", "--step-time=60s")


@functools.cache
def need_namespaces() -> None:
    """Skip, with the reason, where a process cannot have a mount namespace of its own."""
    unshare = shutil.which("unshare")
    words = "there is no unshare"
    if unshare is not None:
        done = subprocess.run([unshare, "-rm", "true"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        words = done.stderr.strip()
    pytest.skip(f"needs a mount namespace, in which a worker does not see the master's folder: {words}")


def worker(port: int, results: Path) -> list[str]:
    where = ["--master-host=127.0.0.1", f"--master-port={port}", f"--results={results}"]
    return [*LOCUST, "-f", SCENARIO, "--worker", *where]


def hiding(results: Path, command: list[str]) -> list[str]:
    """`command`, for whom `results` is an empty folder."""
    return ["unshare", "-rm", "sh", "-c", HIDE, str(results), *command]


class Load:
    """A master and its two workers, each a command of its own; the far one sees nothing of the master's results."""

    def __init__(
        self, stack: contextlib.ExitStack, place: Path, host: str, *options: str, processes: int = 1, **env: str
    ) -> None:
        """`processes`: of the far worker, which are workers each."""
        self.port, self.place = free_port(), place
        self.results, self.folder, self.far_results = place / "master", place / "master" / "r", place / "far"
        self.results.mkdir()
        command = [
            *LOCUST,
            "-f",
            SCENARIO,
            f"--host={host}",
            "--master",
            *LOAD,
            *options,
            f"--expect-workers={1 + processes}",
        ]
        command += [f"--results={self.results}", "--master-bind-host=127.0.0.1", f"--master-bind-port={self.port}"]
        self.master = stack.enter_context(running(command, place / "said-master", **env))
        self.near = stack.enter_context(running(self.worker(place / "near"), place / "said-near", **env))
        far = [*self.worker(self.far_results), *([f"--processes={processes}"] if processes > 1 else [])]
        self.far = stack.enter_context(running(hiding(self.results, far), place / "said-far", **env))

    def worker(self, results: Path) -> list[str]:
        return worker(self.port, results)

    def of_far(self) -> str:
        """The far worker's name, known once it records."""
        return next(self.far_results.iterdir()).name.removeprefix("r-")

    def wait_for_far(self, least: int = 5) -> str:
        self.far.wait_until(recorded_under(self.far_results, least), "rows of the far worker")
        return self.of_far()


def recorded_under(results: Path, least: int) -> "functools.partial[bool]":
    return functools.partial(lambda: any(recorded(folder, least=least)() for folder in results.glob("*")))


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    need_namespaces()
    with contextlib.ExitStack() as held:
        yield held


def check_ended(run: Run, code: int = 0) -> None:
    assert run.code() == code, run.complained
    assert "Traceback" not in run.complained
    assert run.left_over() == []


def test_rows_of_a_far_worker_come_to_the_run(tmp_path: Path, stack: contextlib.ExitStack) -> None:
    """With the text received: three files come over, two workers' books are the server's, nothing is left behind."""
    log = tmp_path / "truth.jsonl"
    server = stack.enter_context(simulator_server("--truth-log", str(log)))
    load = Load(stack, tmp_path, server.base_url, "--save-outputs")
    far = load.wait_for_far()
    for run in (load.master, load.near, load.far):
        check_ended(run)
    assert load.master.complained == ""
    assert list(load.far_results.iterdir()) == [], "handed over, so not kept a second time"
    found = check_books(load.folder, truth_log(log))
    check_times(found, truth_log(log))
    info = run_json(load.folder)
    assert info["state"] == RunState.COMPLETE
    files = request_files(load.folder)
    assert set(files) == {"requests-preflight.csv", "requests-w0.csv", "requests-w1.csv"}
    assert len(files[f"requests-{far}.csv"]) > 10
    for worker, client in info["clients"].items():
        assert client["rows"] == len(files[f"requests-{worker}.csv"])
        assert not client["lost"]
        assert "kept_at" not in client
        assert abs(client["clock_offset_s"]) <= client["clock_uncertainty_s"] < 0.1, "one machine, one clock"
        assert (load.folder / f"outputs-{worker}.jsonl").read_bytes().count(b"\n") == client["rows"]
    assert info["clients"][far]["clock_uncertainty_s"] > 0, "it was measured"
    assert [path.name for path in load.folder.iterdir() if path.name.startswith(".")] == []
    assert "took part and left no row" not in analysed(load.folder)


def test_a_far_worker_is_killed(tmp_path: Path, stack: contextlib.ExitStack, simulator: Server) -> None:
    """Its rows are on its disk, the run says where; copied by hand they belong to it."""
    load = Load(stack, tmp_path, simulator.base_url, "--steps=6", "--step-time=8s")
    far = load.wait_for_far()
    os.kill(load.far.process.pid, signal.SIGKILL)
    check_ended(load.master)
    check_ended(load.near)
    (kept,) = load.far_results.iterdir()
    client = run_json(load.folder)["clients"][far]
    assert client["lost"]
    assert client["kept_at"].endswith(f":{kept}")
    assert str(kept) in load.master.complained
    assert f"python -m analysis report {load.folder}" in load.master.complained
    assert f"requests-{far}.csv" not in request_files(load.folder)
    missing = f"worker {far} took part and left no row"
    assert missing in analysed(load.folder), "a lost worker is a reason of a verdict"
    before = len(rows(load.folder))
    for path in kept.iterdir():
        shutil.copy(path, load.folder)
    assert len(rows(load.folder)) >= before + 5
    assert missing not in analysed(load.folder)


def test_a_far_worker_is_stopped_in_mid_load(tmp_path: Path, stack: contextlib.ExitStack, simulator: Server) -> None:
    """Ctrl-C at its terminal reaches both its processes: their rows are handed over, neither is lost, the load goes on."""
    load = Load(stack, tmp_path, simulator.base_url, "--steps=6", "--step-time=8s", processes=2)
    load.wait_for_far()
    load.far.interrupt(group=True)
    load.far.code()
    assert "Traceback" not in load.far.complained
    assert list(load.far_results.iterdir()) == []
    check_ended(load.master)
    clients = run_json(load.folder)["clients"]
    del clients["preflight"]
    assert len(clients) == 3
    for worker, client in clients.items():
        assert not client["lost"]
        assert client["rows"] == len(request_files(load.folder)[f"requests-{worker}.csv"]) > 0
        assert client["clock_uncertainty_s"] > 0, "measured: its processes were not forked from the master"
    assert outcomes(load.folder)[Outcome.FAILED] == 0


def test_a_far_worker_has_no_key(tmp_path: Path, stack: contextlib.ExitStack) -> None:
    """It would only measure how fast it is refused: the run ends, and says on which machine the key is missing."""
    server = stack.enter_context(simulator_server("--api-key", "right"))
    load = Load(stack, tmp_path, server.base_url, OPENAI_API_KEY="right")
    load.far.end()
    assert load.master.process.poll() is None
    hidden = load.worker(load.far_results)
    stack.enter_context(running(hidden, tmp_path / "said-keyless"))
    assert load.master.code() == 4, load.master.complained
    assert "OPENAI_API_KEY is set for the master and not for this worker" in load.master.complained


def test_two_runs_from_the_page(tmp_path: Path, stack: contextlib.ExitStack, simulator: Server) -> None:
    """One that ends by itself and one that is stopped: Locust has its workers stop by a message of its own there."""
    port, results = free_port(), tmp_path / "master"
    master = ["--master", "--master-bind-host=127.0.0.1", f"--master-bind-port={port}"]
    ui = stack.enter_context(locust_ui(results, simulator.base_url, *master, steps="4"))
    far = hiding(results, worker(port, tmp_path / "far"))
    far_run = stack.enter_context(running(far, tmp_path / "said-far"))
    ui.run.wait_until(lambda: '"worker_count":1' in ui.get("/worker-count")[1].replace(" ", ""), "the far worker")
    assert ui.start(run_name="whole")["success"]
    ui.ended()
    assert ui.start(run_name="stopped", step_time="60s")["success"]
    far_run.wait_until(recorded_under(tmp_path / "far", 5), "rows of the second run")
    assert ui.post("/stop")[0] == 200
    ui.ended()
    for name, state in (("whole", RunState.COMPLETE), ("stopped", RunState.INTERRUPTED)):
        info = run_json(results / name)
        assert (info["state"], info["clients"]["w0"]["lost"]) == (state, False)
        assert info["clients"]["w0"]["rows"] == len(request_files(results / name)["requests-w0.csv"]) >= 5
    assert list((tmp_path / "far").iterdir()) == []
    assert "Traceback" not in ui.run.complained + far_run.complained


@pytest.mark.slow
def test_the_master_is_gone(tmp_path: Path, stack: contextlib.ExitStack, simulator: Server) -> None:
    """A far worker that cannot hand over its rows keeps them, and says where they are and what to do."""
    load = Load(stack, tmp_path, simulator.base_url, *LONG)
    far = load.wait_for_far()
    load.master.process.kill()
    load.far.interrupt(signal.SIGTERM)
    load.near.interrupt(signal.SIGTERM)
    load.far.code()
    assert "Traceback" not in load.far.complained
    (kept,) = load.far_results.iterdir()
    assert f"The rows of worker {far} could not be handed to the master" in load.far.complained
    assert str(kept) in load.far.complained
    assert len(request_files(kept)[f"requests-{far}.csv"]) >= 5
