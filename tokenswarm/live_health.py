"""The live verdict on the client, in words: may the figures on the screen be believed? The report judges again.

The limits are those of the report's verdict (`trust`).
"""

import enum
from collections.abc import Iterator, Sequence

from tokenswarm import trust
from tokenswarm.live_sketch import share_above
from tokenswarm.live_tally import (
    CHUNKS,
    CLOCK_US,
    COALESCED,
    CPU,
    ITL,
    LAG,
    READS,
    ROWS,
    STAMPED,
    STOLEN,
    USER_STAMPED,
    USERS,
    Tally,
)


class Level(enum.StrEnum):
    """The report's own words."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


Finding = tuple[Level, str]


def _grade(value: float, limits: tuple[float, float], text: str) -> Iterator[Finding]:
    if value > limits[0]:
        yield Level.INVALID if value > limits[1] else Level.SUSPECT, text


def findings(tally: Tally, target_users: int | None = None, lost: Sequence[str] = ()) -> list[Finding]:
    """What speaks against the figures of `tally`, the worst first. `lost`: workers that were lost meanwhile."""
    found = [(Level.INVALID, f"worker {worker} was lost: its requests in flight have no row") for worker in lost]
    found += [*_of_process(tally, target_users, bool(lost)), *_of_arrival(tally)]
    return sorted(found, key=lambda finding: -list(Level).index(finding[0]))


def _of_process(tally: Tally, target_users: int | None, is_short_anyway: bool) -> Iterator[Finding]:
    if not tally.health:
        return
    busiest = max(tally.health, key=lambda worker: tally.health[worker][CPU] / tally.health[worker][ROWS])
    cpu = tally.health[busiest][CPU] / tally.health[busiest][ROWS]
    yield from _grade(cpu, trust.CPU_OF_CORE, f"client CPU {cpu:.0%} of a core (worker {busiest}): use more workers")
    stolen = max(sums[STOLEN] / sums[ROWS] for sums in tally.health.values())
    text = (
        f"a hypervisor gave {stolen:.0%} of the client machine's CPU to others: what arrived meanwhile has a later time"
    )
    yield from _grade(stolen, trust.STOLEN, text)
    moved_s = max(sums[CLOCK_US] for sums in tally.health.values()) / 1e6
    yield from _grade(moved_s, trust.CLOCK_STEP_S, f"the wall clock moved by {moved_s * 1000:.1f} ms")
    if target_users and not is_short_anyway:
        users = sum(sums[USERS] / sums[ROWS] for sums in tally.health.values())
        yield from _grade(
            1 - users / target_users, trust.MISSING_USERS, f"{users:.1f} users were up instead of {target_users}"
        )


def _of_arrival(tally: Tally) -> Iterator[Finding]:
    counts = tally.counts
    if not counts.get(STAMPED):
        return
    share = counts.get(USER_STAMPED, 0) / counts[STAMPED]
    yield from _grade(share, trust.USER_TIMES, f"{share:.0%} of the requests have arrival times taken by this process")
    if counts.get(CHUNKS):
        merged = counts.get(COALESCED, 0) / counts[CHUNKS]
        yield from _grade(merged, trust.MERGED_CHUNKS, f"{merged:.1%} of the chunks were merged when they were read")
    itl_s = tally.quantile_s(ITL, 0.5)
    late = share_above(tally.sketches[LAG], itl_s / 2) if itl_s is not None else None
    if late is not None:
        yield from _grade(
            late, trust.LATE_READS, f"{late:.0%} of the requests were read later than half the median ITL"
        )


def verdict(found: Sequence[Finding], has_health: bool) -> tuple[Level | None, str]:
    """Level and one sentence; no level where nothing was told yet."""
    if found:
        return found[0][0], "; ".join(text for _, text in found)
    if not has_health:
        return None, "nothing heard of the client yet"
    return Level.VALID, "the client keeps up: what is shown is the server's doing"


def reads_told(tally: Tally) -> bool:
    """Whether a client has said anything of itself."""
    return any(sums[READS] or sums[ROWS] for sums in tally.health.values())
