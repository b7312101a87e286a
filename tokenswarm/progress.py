"""The line a person follows while a run goes on: where it is, how fast it goes, how many answers were good."""

import dataclasses
import enum

from tokenswarm import format
from tokenswarm.metrics import METRICS

WIDTH = 100  # columns
FOLLOWED = METRICS["ttft"]  # the latency of the line
_PLAIN = str.maketrans({"·": "|", "µ": "u", "–": "-", "…": "~"})


class Phase(enum.StrEnum):
    """What a step is doing."""

    SPAWNING = "spawning"
    WARMUP = "warm-up"
    STEADY = "steady"
    DRAINING = "draining"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the line shows. Unknown is None."""

    phase: Phase
    step: int  # 1-based
    steps: int
    users: int
    target_users: int
    left_s: float | None = None  # until the step (in warm-up: until the warm-up) is over
    in_flight: int | None = None  # shown while draining
    tokens_per_s: float | None = None
    p50_s: float | None = None  # of FOLLOWED
    p95_s: float | None = None
    ok: int = 0
    errors: int = 0
    cancelled: int = 0
    lost_rows: int = 0


def line(progress: Progress, encoding: str | None = None) -> str:
    """One line of at most WIDTH columns, without a line end, printable in `encoding` (of stdout; None: anything goes).

    Where it would be too long, the least needed parts are left out; errors and lost rows never are.
    """
    parts = {
        "step": f"step {format.count(progress.step)}/{format.count(progress.steps)}",
        "users": _users(progress),
        "left": _left(progress),
        "speed": "" if progress.tokens_per_s is None else f"{format.count(progress.tokens_per_s)} tok/s",
        "latency": _latency(progress),
        "cancelled": f"{format.count(progress.cancelled)} cancelled" if progress.cancelled else "",
        "ok": f"{format.count(progress.ok)} ok",
        "errors": f"{format.count(progress.errors)} {'error' if progress.errors == 1 else 'errors'}",
        "lost": f"{format.count(progress.lost_rows)} ROWS NOT RECORDED" if progress.lost_rows else "",
    }
    for spare in ("", "cancelled", "latency", "left", "speed", "users"):
        parts.pop(spare, None)
        text = " · ".join(part for part in parts.values() if part)
        if len(text) <= WIDTH:
            break
    return printable(text, encoding)


def _users(progress: Progress) -> str:
    users, target = format.count(progress.users), format.count(progress.target_users)
    if progress.phase is Phase.SPAWNING:
        return f"starting users: {users} of {target}"
    if progress.phase is Phase.DRAINING:
        return "draining" if progress.in_flight is None else f"draining, {format.count(progress.in_flight)} in flight"
    shown = users if progress.users == progress.target_users else f"{users} of {target}"
    return f"{shown} {'user' if shown == '1' else 'users'}"


def _left(progress: Progress) -> str:
    if progress.left_s is None:
        return ""
    left = format.clock(progress.left_s)
    return f"warming up, {left}" if progress.phase is Phase.WARMUP else f"{left} left"


def _latency(progress: Progress) -> str:
    if progress.p50_s is None or progress.p95_s is None:
        return ""
    return f"{FOLLOWED.label} p50 {format.span(progress.p50_s)} p95 {format.span(progress.p95_s)}"


def printable(text: str, encoding: str | None) -> str:
    """`text`, with plain signs where `encoding` does not know ours."""
    if encoding is None:
        return text
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii")
    except LookupError:
        return text.translate(_PLAIN)
    return text
