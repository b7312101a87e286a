"""The processes of a measurement: the emitter on one core, one client at a time on another; both always end."""

import contextlib
import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
LISTENING = "emitter listening on "
START_LIMIT_S = 20.0
STOP_LIMIT_S = 10.0


class BenchError(Exception):
    """A measurement that could not be made; one or two sentences for a person."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where the two sides run. `cores` is empty where they cannot be told apart; `nice` 0 is the normal priority.

    `realtime`: before everything else on the machine, at once. What a C client measures on a machine that others use
    says whether that is needed.
    """

    cores: tuple[int, ...]
    nice: int
    realtime: bool = False

    @classmethod
    def find(cls, nice: int, realtime: bool = False) -> "Place":
        """The emitter and the client get the last two cores that this process may use, and the priority if allowed."""
        usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        wanted = cls(tuple(usable[-2:]) if len(usable) > 1 else (), nice, realtime)
        return wanted if wanted.allowed() else dataclasses.replace(wanted, nice=0, realtime=False)

    def allowed(self) -> bool:
        """Whether a process of ours may have this priority: tried on one that does nothing."""
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        try:
            self.put(child.pid, 0)
        except OSError:
            return False
        finally:
            child.kill()
            child.communicate()
        return True

    def put(self, pid: int, side: int) -> None:
        """`side` 0 is the client, 1 the emitter."""
        with contextlib.suppress(ProcessLookupError):  # ended at once: whoever reads its output will say so
            if self.cores:
                os.sched_setaffinity(pid, {self.cores[side]})
            if self.realtime:
                os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
            elif self.nice:
                os.setpriority(os.PRIO_PROCESS, pid, self.nice)
                # Linux shares cores out among sessions first: among those, it is the session's own priority that counts
                with contextlib.suppress(OSError):
                    Path(f"/proc/{pid}/autogroup").write_text(str(self.nice))

    def __str__(self) -> str:
        where = "on any core"
        if self.cores:
            where = f"client on core {self.cores[0]}, emitter on core {self.cores[1]}"
        priority = f"priority {self.nice}" if self.nice else "normal priority"
        return f"{where}; {'real-time' if self.realtime else priority}"


class Emitter:
    """A running emitter. `did` is what it says of itself, once it has ended."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.pid = process.pid
        self.url = url
        self.did: dict[str, float] = {}


@contextlib.contextmanager
def emitter(program: Path | None, rate: float, place: Place) -> Iterator[Emitter]:
    """Starts the emitter (`program`, or the one in Python) at `rate` tokens/s a stream; ends it with the block."""
    command = [str(program)] if program is not None else [sys.executable, "-m", "bench.emitter"]
    process = subprocess.Popen(
        [*command, f"{rate:g}"],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        place.put(process.pid, 1)
        assert process.stdout is not None
        first = _first_line(process.stdout)
        if not first.startswith(LISTENING):
            raise BenchError(f"the emitter said {first!r} where it should say where it listens")
        running = Emitter(process, first.removeprefix(LISTENING).strip())
        yield running
        said, _ = process.communicate(timeout=STOP_LIMIT_S)
        running.did = json.loads(said)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _first_line(stream: IO[str]) -> str:
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=lambda: lines.put(stream.readline()), daemon=True).start()
    try:
        return lines.get(timeout=START_LIMIT_S)
    except queue.Empty:
        raise BenchError(f"the emitter did not start within {START_LIMIT_S:g} s") from None


def run_client(command: Sequence[str], place: Place, limit_s: float) -> dict[str, Any]:
    """Runs a client to its end; the JSON of its last line. Raises BenchError."""
    process = subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    place.put(process.pid, 0)
    try:
        said, complained = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise BenchError(f"it was not done within {limit_s:g} s") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    if process.returncode != 0:
        raise BenchError((complained.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
    answer: dict[str, Any] = json.loads(said.splitlines()[-1])
    return answer
