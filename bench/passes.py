"""The measurements of the benchmark: who reads how many streams, how fast, how long. Each is one pass, one client process."""

import dataclasses
import enum
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from bench.processes import BenchError, Emitter, Place, emitter, run_client
from bench.task import Task

RATE = 100.0  # tokens/s of one stream
FAST_RATE = 14_000.0  # the fastest speed published for a single stream
LONG_RATE = 1_000.0  # of answers that are so long that it would take minutes at the usual rate
STARTING_S = 15.0
SLOWEST = 20  # times the emitter's time: what the slowest client may take before it is given up


class Client(enum.StrEnum):
    OURS = "ours"
    OPENAI = "openai"
    REQUESTS = "requests"
    C = "c"


class Kind(enum.StrEnum):
    ERRORS = "errors"  # arrivals against the truth
    COST = "cost"  # CPU, without texts kept
    SUSTAINED = "sustained"  # as many tokens/s as the goal says, without restarts
    FAST_ERRORS = "fast-errors"  # one stream at FAST_RATE
    FAST_COST = "fast-cost"
    MEMORY = "memory"
    LONG = "long"  # memory of answers that stay open


@dataclasses.dataclass(frozen=True, slots=True)
class Pass:
    """`rounds` are measured, after one that is not."""

    client: Client
    kind: Kind
    streams: int
    tokens: int
    rounds: int

    @property
    def name(self) -> str:
        return f"{self.client}-{self.kind}-{self.streams}"

    @property
    def rate(self) -> float:
        """Tokens/s of each stream."""
        return {Kind.FAST_ERRORS: FAST_RATE, Kind.FAST_COST: FAST_RATE, Kind.LONG: LONG_RATE}.get(self.kind, RATE)

    @property
    def expected_s(self) -> float:
        return self.tokens * (self.rounds + 1) / self.rate


def passes(quick: bool, memory_s: float | None = None) -> list[Pass]:
    """Those whose figures are compared stand side by side: machines change while they are measured.

    `memory_s`: nothing but the watching of memory, for so long.
    """
    if memory_s is not None:
        per_round = 400
        rounds = max(3, round(memory_s * RATE / per_round))
        return [Pass(Client.OURS, Kind.MEMORY, 200, per_round, rounds)]
    tokens, rounds = (40, 2) if quick else (100, 10)
    fast = (int(FAST_RATE), 1) if quick else (2 * int(FAST_RATE), 2)
    ours, sdk, plain, c = Client.OURS, Client.OPENAI, Client.REQUESTS, Client.C
    chosen = [
        Pass(ours, Kind.ERRORS, 1, *((20, 5) if quick else (25, 40))),
        Pass(c, Kind.ERRORS, 1, *((20, 5) if quick else (25, 40))),
        Pass(ours, Kind.ERRORS, 50, tokens, rounds),
        Pass(sdk, Kind.ERRORS, 50, tokens, 1 if quick else 4),
        Pass(plain, Kind.ERRORS, 50, tokens, 1 if quick else 4),
        Pass(ours, Kind.COST, 200, tokens, rounds),
        Pass(c, Kind.COST, 200, tokens, rounds),
        Pass(sdk, Kind.ERRORS, 200, tokens, 1 if quick else 3),
        Pass(plain, Kind.ERRORS, 200, tokens, 1 if quick else 3),
        Pass(ours, Kind.ERRORS, 200, tokens, rounds),
        Pass(c, Kind.ERRORS, 200, tokens, rounds),
        Pass(ours, Kind.COST, 500, tokens, rounds),
        Pass(c, Kind.COST, 500, tokens, rounds),
        Pass(ours, Kind.ERRORS, 500, tokens, rounds),
        Pass(c, Kind.ERRORS, 500, tokens, rounds),
        Pass(ours, Kind.SUSTAINED, 500, 120 if quick else 700, 1),
        Pass(c, Kind.SUSTAINED, 500, 120 if quick else 700, 1),
        Pass(ours, Kind.FAST_ERRORS, 1, *fast),
        Pass(ours, Kind.FAST_COST, 1, *fast),
        Pass(c, Kind.FAST_ERRORS, 1, *fast),
        Pass(ours, Kind.MEMORY, 200, *((120, 3) if quick else (400, 5))),
        Pass(ours, Kind.LONG, 20, 2_500 if quick else 10_000, 1),
    ]
    if not quick:
        return chosen
    beside = (
        f"{c}-{Kind.ERRORS}-1",
        f"{c}-{Kind.ERRORS}-500",
        f"{c}-{Kind.SUSTAINED}-500",
        f"{sdk}-{Kind.ERRORS}-50",
        f"{plain}-{Kind.ERRORS}-50",
        f"{plain}-{Kind.ERRORS}-200",
    )
    return [one for one in chosen if one.name not in beside]  # no goal needs them


@dataclasses.dataclass(frozen=True, slots=True)
class Programs:
    """The compiled C parts; None where there is no compiler."""

    emitter: Path | None
    reader: Path | None


def run(one: Pass, programs: Programs, place: Place, left_s: float) -> dict[str, Any]:
    """What the client measured, what the emitter did, how many cores others used meanwhile, and what a hypervisor took.

    Raises BenchError.
    """
    if one.client is Client.C and programs.reader is None:
        raise BenchError("there is no C compiler (cc) here")
    limit_s = min(left_s, STARTING_S + SLOWEST * one.expected_s)
    if limit_s <= STARTING_S / 3:
        raise BenchError("the benchmark's time was over")
    began_s, busy_s, own_s, stolen_s = time.monotonic(), _busy_s(), _children_s(), _stolen_s()
    with emitter(programs.emitter, one.rate, place) as running:
        measured = run_client(_command(one, running, programs), place, limit_s)
    took_s = time.monotonic() - began_s
    others_s = _busy_s() - busy_s - (_children_s() - own_s)
    about = {"others_cores": max(0.0, others_s) / took_s, "stolen_s": _stolen_s() - stolen_s}
    return {"measured": measured, "emitter": running.did, **about}


def _command(one: Pass, running: Emitter, programs: Programs) -> list[str]:
    task = Task(
        running.url,
        one.streams,
        one.tokens,
        one.rounds,
        keep_text=one.kind in (Kind.ERRORS, Kind.FAST_ERRORS),
        watch_memory=one.kind in (Kind.MEMORY, Kind.LONG),
    )
    if one.client is Client.C:
        port = running.url.rsplit(":", 1)[1].split("/")[0]
        numbers = [port, str(one.streams), str(one.tokens), str(one.rounds)]
        judged = one.kind is not Kind.COST
        return [str(programs.reader), *numbers, *(["errors"] if judged else [])]
    return [sys.executable, "-m", f"bench.client_{one.client}", task.to_json()]


def _busy_s() -> float:
    """Seconds of CPU that the whole machine has spent, since it started."""
    times = psutil.cpu_times()
    unused = (getattr(times, name, 0.0) for name in ("idle", "iowait", "guest", "steal"))
    return float(sum(times) - sum(unused))


def _stolen_s() -> float:
    """Seconds in which a hypervisor ran others on the cores of this machine, since it started."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    names = [line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    system = os.uname()
    return {
        "cpu": names[0] if names else system.machine,
        "cores": os.cpu_count(),
        "system": f"{system.sysname} {system.release}",
        "python": sys.version.split()[0],
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
