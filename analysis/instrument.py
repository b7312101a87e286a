"""What a step tells of the client that measured it: arrival times, its load, its clock, its workers, its schedule."""

from collections.abc import Iterator, Mapping, Set
from typing import Any

import pandas as pd

from analysis import names
from analysis.cells import MICRO
from analysis.grade import Finding, Verdict, grade
from analysis.wording import users as people
from tokenswarm.record import Stamp
from tokenswarm.trust import CLOCK_STEP_S, CPU_OF_CORE, LATE_READS, MERGED_CHUNKS, MISSING_USERS, STOLEN, USER_TIMES

# As in `tokenswarm.trust`: beyond the first of a pair a step is suspect, beyond the second invalid. What is here is known
# only afterwards.
LATE_SECONDS = (0.05, 0.5)  # of seconds with such a lag where this process stamped itself: there it IS in the figures
SHORT_CONCURRENCY = (0.10, 0.50)  # of the target: client pauses between requests, or failures that return at once
SLIPPED = (0.01, 0.10)  # of requests sent late in an open loop: first p99, then p95 holds the client's own delay
SLIP_S, SLIP_OF_TTFT = 0.001, 0.05  # sent later than both, and the slip is seen in TTFT
SILENT_S = 5.0  # a health row comes every second: five missing ones are no hiccup


def of_arrival(row: Mapping[str, Any], sent: pd.DataFrame, watch: pd.DataFrame) -> Iterator[Finding]:
    stamped = sent[sent.stamp.notna()]
    if not len(stamped):
        return
    share = float((stamped.stamp == Stamp.USER).mean())
    yield from grade(
        share, USER_TIMES, f"{share:.0%} of the requests have arrival times taken by this process, not the kernel"
    )
    half_itl_us = row[names.stat(names.ITL, "p50")] / 2 * MICRO
    late = float((stamped.lag_max_us > half_itl_us).mean())
    text = f"{late:.0%} of the requests were read later than half the median ITL"
    yield from grade(late, LATE_READS, text)
    if len(watch) and share > USER_TIMES[0]:
        late = float((watch.loop_lag_max_us > half_itl_us).mean())
        text = (
            f"in {late:.0%} of the seconds the client was late by more than half the median ITL, and its times with it"
        )
        yield from grade(late, LATE_SECONDS, text)
    merged = stamped.coalesced.sum() / max(stamped.n_chunks.sum(), 1)
    yield from grade(
        merged, MERGED_CHUNKS, f"{merged:.1%} of the chunks were merged with the one before when they were read"
    )


def of_client(step: Any, row: Mapping[str, Any], watch: pd.DataFrame) -> Iterator[Finding]:
    target = step.target_users
    concurrency = row[names.OBSERVED_CONCURRENCY]
    text = f"observed concurrency {concurrency:.3g} is short of {people(target)}: the client pauses, or answers fail at once"
    yield from grade(1 - concurrency / target, SHORT_CONCURRENCY, text)
    if not len(watch):
        return
    busiest = watch.groupby("worker").cpu_ratio.mean()
    if busiest.notna().any():
        text = f"client CPU {busiest.max():.0%} of a core (worker {busiest.idxmax()}): use more workers"
        yield from grade(float(busiest.max()), CPU_OF_CORE, text)
    stolen = watch.groupby("worker").stolen_ratio.mean().max()
    text = (
        f"a hypervisor gave {stolen:.0%} of the client machine's CPU to others: what arrived meanwhile has a later time"
    )
    yield from grade(float(stolen), STOLEN, text)
    users = watch.groupby("worker").users.mean().sum(min_count=1)  # nobody counted them: unknown, not none
    yield from grade(1 - users / target, MISSING_USERS, f"{users:.1f} users were up instead of {target}")
    moved_s = watch.groupby("worker").clock_step_us.apply(lambda moves: moves.abs().sum()).max() / MICRO
    yield from grade(
        moved_s, CLOCK_STEP_S, f"the wall clock moved by {moved_s * 1000:.1f} ms against the monotonic one"
    )


def of_workers(step: Any, health: pd.DataFrame, lost: Set[str]) -> Iterator[Finding]:
    """Workers that fell silent, by the health of those at work in the load, and those that are `lost` altogether."""
    for worker, last_us in health.groupby("worker").us.max().items():
        silent_s = (step.end_us - last_us) / MICRO
        if silent_s > SILENT_S and last_us > step.started_us - SILENT_S * MICRO:
            yield Verdict.INVALID, f"worker {worker} fell silent {silent_s:.0f} s before the window closed"
        elif silent_s > SILENT_S:
            yield Verdict.INVALID, f"worker {worker} was gone"
    for worker in sorted(lost):
        yield Verdict.INVALID, f"worker {worker} took part and left no row: its files are missing"


def of_schedule(row: Mapping[str, Any], due: pd.DataFrame) -> Iterator[Finding]:
    """Open loop: requests that were sent later than scheduled. Latency counts from the schedule, slip included."""
    scheduled = due[due.scheduled_us.notna()]
    if not len(scheduled):
        return
    slip_s = (scheduled.sent_us - scheduled.due_us) / MICRO
    ttft_s = row[names.stat(names.TTFT, "p50")]
    late = slip_s > max(SLIP_S, SLIP_OF_TTFT * ttft_s if ttft_s > 0 else 0)
    text = f"{late.mean():.1%} of the requests were sent later than scheduled, by up to {slip_s.max():.3g} s: "
    yield from grade(
        float(late.mean()), SLIPPED, text + "the client did not keep the schedule, and TTFT holds its delay"
    )
