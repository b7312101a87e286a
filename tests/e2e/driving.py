"""Runs of the real command in processes of their own, and what they leave behind."""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tokenswarm.record import Outcome, RequestRecord, request_from_cells
from tokenswarm.runfolder import REQUESTS_OF_ALL, RUN, SUMMARY

REPO = Path(__file__).resolve().parents[2]
LIMIT_S = 90.0  # of anything that is waited for; the machine may be busy
STEPLOAD = [sys.executable, "-m", "tokenswarm.stepload"]
LOCUST = [sys.executable, "-m", "locust", "--headless", "--skip-log-setup", "--only-summary"]
SCENARIO = "locustfiles/chat.py,scenarios/stepload.py"


class Run:
    """A started command. Its output is in files, so that nothing ever blocks."""

    def __init__(self, command: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.out, self.err = folder / "stdout", folder / "stderr"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TOKENSWARM_", "LOCUST_"))}
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                command,
                cwd=REPO,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                env={**clean, "OPENAI_API_KEY": "", **env},
            )
        self.seen: dict[int, psutil.Process] = {}

    @property
    def said(self) -> str:
        return self.out.read_text(errors="replace")

    @property
    def complained(self) -> str:
        return self.err.read_text(errors="replace")

    def family(self) -> list[psutil.Process]:
        """The processes under the command that live now; all that were ever seen stay in `seen`."""
        found = []
        with contextlib.suppress(psutil.NoSuchProcess):
            found = psutil.Process(self.process.pid).children(recursive=True)
        self.seen |= {child.pid: child for child in found}
        return found

    def wait_until(self, holds: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + LIMIT_S
        while not (found := holds()):
            self.family()
            assert self.process.poll() is None, f"ended before {what}: {self.said}\n{self.complained}"
            assert time.monotonic() < deadline, f"no {what} within {LIMIT_S:g} s: {self.said}\n{self.complained}"
            time.sleep(0.05)
        return found

    def code(self) -> int:
        """The exit code, waited for."""
        deadline = time.monotonic() + LIMIT_S
        while self.process.poll() is None:
            self.family()
            assert time.monotonic() < deadline, f"does not end: {self.said}\n{self.complained}"
            time.sleep(0.05)
        return self.process.returncode

    def interrupt(self, number: int = signal.SIGINT, *, group: bool = False) -> None:
        """`group`: as a terminal does, to every process of the foreground group."""
        self.family()
        (os.killpg if group else os.kill)(self.process.pid, number)

    def left_over(self, within_s: float = 5.0) -> list[str]:
        """Command lines of processes of this run that still live after `within_s`."""
        _, alive = psutil.wait_procs(list(self.seen.values()), within_s)
        return [" ".join(process.cmdline()) for process in alive if process.status() != psutil.STATUS_ZOMBIE]

    def end(self) -> None:
        """For a test that failed: nothing it started goes on."""
        self.family()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for process in self.seen.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@contextlib.contextmanager
def running(command: Sequence[str], folder: Path, **env: str) -> Iterator[Run]:
    run = Run(command, folder, env)
    try:
        yield run
    finally:
        run.end()


def stepload(results: Path, name: str, **options: str) -> list[str]:
    """The command with short steps; `options` as on the command line, "_" for "-"."""
    given = {"steps": "1,4", "step_time": "3s", "warmup": "1s", "prompt_tokens": "64", "max_tokens": "12", **options}
    flags = [f"--{option.replace('_', '-')}={value}" for option, value in given.items()]
    return [*STEPLOAD, f"--results={results}", f"--run-name={name}", *flags]


def request_files(folder: Path) -> dict[str, list[RequestRecord]]:
    """File name → its rows, each of them whole."""
    files = {}
    for path in sorted(folder.glob(REQUESTS_OF_ALL)):
        with open(path, newline="", encoding="utf-8") as file:
            assert path.read_bytes().endswith(b"\n"), f"{path.name}: its last row is torn"
            files[path.name] = [request_from_cells(cells) for cells in csv.DictReader(file)]
    return files


def rows(folder: Path) -> list[RequestRecord]:
    return [row for file in request_files(folder).values() for row in file]


def outcomes(folder: Path) -> dict[Outcome, int]:
    found = [row.outcome for row in rows(folder)]
    return {outcome: found.count(outcome) for outcome in Outcome}


def run_json(folder: Path) -> dict[str, Any]:
    return json.loads((folder / RUN).read_text())


def recorded(folder: Path, name: str = "requests-w*.csv", least: int = 1) -> Callable[[], bool]:
    """Whether a worker has recorded `least` rows or more."""
    return lambda: sum(path.read_bytes().count(b"\n") - 1 for path in folder.glob(name)) >= least


def analysed(folder: Path) -> str:
    """What the analysis of `folder` prints, and its summary.csv. It must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", "analysis", "summary", str(folder)],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + (folder / SUMMARY).read_text()
