"""The verdict on each step: may its figures be believed? Reasons in words; the worst one decides.

Thresholds are constants, each with its reason. What the files do not show (no health file) is not held against a step,
except where a worker's rows stop.
"""

import enum
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.cells import MICRO
from analysis.chunks import Chunks
from tokenswarm.record import Outcome, Stamp


class Verdict(enum.StrEnum):
    """In order of severity."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


# Each pair: beyond the first a step is suspect, beyond the second invalid.
LAG_SHARE = (
    0.05,
    1.0,
)  # of requests read later than half an ITL: p95 is touched; never invalid alone, stamps are the kernel's
USER_LAG_SHARE = (
    0.05,
    0.5,
)  # of seconds with such a lag where this process stamped itself: there the lag IS in the figures
COALESCED = (0.01, 0.05)  # of chunks: a merged chunk reads as a gap of 0, p99 is touched first, then p95
USER_STAMPED = (0.01, 1.0)  # of requests: their times are those of the reading
CPU = (0.80, 0.90)  # of one core: Locust's own line is 90 %; above 80 % a burst already queues
SHORT_USERS = (0.02, 0.10)  # of the target: the step is labelled with a load that was not there
SHORT_CONCURRENCY = (0.10, 0.50)  # of the target: client pauses between requests, or failures that return at once
CENSORED = (
    0.10,
    0.25,
)  # of requests still open: beyond 5 % p95 of E2E rests on the estimator, beyond 25 % on little else
ERRORS = (0.01, 0.05)  # of requests: percentiles are those of the survivors; beyond 5 % a p95 over all would not exist
CLOCK_STEP_S = (0.001, 0.1)  # total movement in the window: 1 ms is a slewing clock, 100 ms puts TTFT off by that much
WARM_CACHE = (0.25, 0.50)  # of prompt tokens: a shared system prompt stays below; beyond half, prefill is not measured
IMPOSSIBLE = (0.0, 0.01)  # of rows with times that cannot be
START_BURST = (0.10, 1.0)  # of requests: the common start is in the steady figures, the warm-up is too short
SILENT_S = 5.0  # a health row comes every second: five missing ones are no hiccup
LEAST_REQUESTS = 6  # below, not even a median has a 95 % interval
MOST_TOKENS_PER_S = 10_000.0  # for one user; the fastest hardware known decodes a third of it

Finding = tuple[Verdict, str]


def judge(
    requests: pd.DataFrame, chunks: Chunks, steps: pd.DataFrame, summary: pd.DataFrame, health: pd.DataFrame
) -> pd.DataFrame:
    """`summary` with verdict and reasons after the step's load. Frames as of `steady`, `summary` and `load`."""
    impossible = impossible_rows(requests, chunks)
    health = _of_load(health, steps)
    verdicts, reasons = [], []
    for step, row in zip(steps.itertuples(), summary.to_dict("records"), strict=True):
        findings = list(
            _findings(step, {str(name): value for name, value in row.items()}, requests, impossible, health)
        )
        worst = max((verdict for verdict, _ in findings), key=list(Verdict).index, default=Verdict.VALID)
        findings.sort(key=lambda finding: -list(Verdict).index(finding[0]))
        verdicts.append(worst.value)
        reasons.append("; ".join(text for _, text in findings))
    judged = summary.copy()
    after = list(judged.columns).index(names.OBSERVED_CONCURRENCY) + 1 if len(judged) else 0
    judged.insert(after, names.VERDICT, verdicts)
    judged.insert(after + 1, names.REASONS, reasons)
    return judged


def _of_load(health: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """`health` without processes that were done before the first step, such as the preflight."""
    last_us = health.groupby("worker").us.transform("max")
    return health[last_us >= steps.started_us.min()]


def impossible_rows(requests: pd.DataFrame, chunks: Chunks) -> np.ndarray:
    """Rows with times that cannot be: before the request, backwards, after its end, or faster than any engine."""
    backwards = np.zeros(len(requests), bool)
    falls = np.flatnonzero(np.diff(chunks.at_us) < 0) + 1
    owners = np.searchsorted(chunks.start, falls, side="right") - 1
    inner = falls != chunks.start[owners]
    backwards[owners[inner]] = True
    first_us, last_us = chunks.first_us(), chunks.last_us()
    early = (first_us < 0) | (requests.ended_us < 0).to_numpy()
    late = last_us > requests.ended_us.fillna(np.inf).to_numpy()
    answer_early = (requests.first_answer_us < first_us).to_numpy()
    too_fast = (requests.tpot_us < MICRO / MOST_TOKENS_PER_S).to_numpy()
    return backwards | early | late | answer_early | too_fast


def _grade(value: float, limits: tuple[float, float], text: str) -> Iterator[Finding]:
    """One finding where `value` lies beyond the first of `limits`; none where it is unknown."""
    if value > limits[1]:
        yield Verdict.INVALID, text
    elif value > limits[0]:
        yield Verdict.SUSPECT, text


def _findings(
    step: Any, row: dict[str, Any], requests: pd.DataFrame, impossible: np.ndarray, health: pd.DataFrame
) -> Iterator[Finding]:
    if np.isnan(step.begin_us):
        why = "its users were never all up" if np.isnan(step.settled_us) else "it ended within its warm-up"
        yield Verdict.INVALID, f"no steady window: {why}"
        return
    is_sent = requests.in_window & (requests.sent_us >= step.begin_us) & (requests.sent_us < step.end_us)
    sent = requests[is_sent]
    watch = health[(health.us > step.begin_us) & (health.us <= step.end_us)]
    if step.short:
        length_s, planned_s = row[names.WINDOW_LENGTH_S], step.planned_us / MICRO
        yield Verdict.SUSPECT, f"the step was cut short: a window of {length_s:.0f} s instead of {planned_s:.0f} s"
    yield from _of_answers(row, sent, impossible[is_sent.to_numpy()])
    yield from _of_arrival(row, sent, watch)
    yield from _of_client(step, row, health, watch)


def _of_answers(row: dict[str, Any], sent: pd.DataFrame, impossible: np.ndarray) -> Iterator[Finding]:
    count = len(sent)
    answered = row[names.outcome_count(Outcome.OK)]
    if answered == 0:
        failed, stopped = (row[names.outcome_count(outcome)] for outcome in (Outcome.FAILED, Outcome.CANCELLED))
        text = f"none of the {count} requests sent in the window was answered ({failed} failed, we stopped {stopped})"
        yield Verdict.INVALID, text
        return
    elif answered < LEAST_REQUESTS:
        yield Verdict.SUSPECT, f"only {answered} of {count} requests answered: too few for percentiles"
    errors = row[names.ERROR_RATIO]
    text = f"{errors:.1%} of the requests failed: latencies are those of the other {1 - errors:.1%}"
    yield from _grade(errors, ERRORS, text)
    share = row[names.CENSORED] / count
    text = f"{share:.1%} of the requests were still open when the window closed: their E2E and TPOT are only known to be longer"
    yield from _grade(share, CENSORED, text)
    yield from _grade(
        impossible.mean(),
        IMPOSSIBLE,
        f"{int(impossible.sum())} of {count} rows hold impossible times: a measurement fault",
    )
    share = row[names.START_BURST] / count
    text = f"{share:.1%} of the requests are the first of their user: the warm-up is too short"
    yield from _grade(share, START_BURST, text)
    known = sent[sent.cached_tokens.notna() & (sent.prompt_tokens > 0)]
    share = known.cached_tokens.sum() / known.prompt_tokens.sum() if len(known) else np.nan
    yield from _grade(share, WARM_CACHE, f"{share:.0%} of the prompt tokens came from a warm prefix cache")


def _of_arrival(row: dict[str, Any], sent: pd.DataFrame, watch: pd.DataFrame) -> Iterator[Finding]:
    stamped = sent[sent.stamp.notna()]
    if not len(stamped):
        return
    share = float((stamped.stamp == Stamp.USER).mean())
    yield from _grade(
        share, USER_STAMPED, f"{share:.0%} of the requests have arrival times taken by this process, not the kernel"
    )
    half_itl_us = row[names.stat(names.ITL, "p50")] / 2 * MICRO
    late = float((stamped.lag_max_us > half_itl_us).mean())
    text = f"{late:.0%} of the requests were read later than half the median ITL"
    yield from _grade(late, LAG_SHARE, text)
    if len(watch) and share > USER_STAMPED[0]:
        late = float((watch.loop_lag_max_us > half_itl_us).mean())
        text = (
            f"in {late:.0%} of the seconds the client was late by more than half the median ITL, and its times with it"
        )
        yield from _grade(late, USER_LAG_SHARE, text)
    merged = stamped.coalesced.sum() / max(stamped.n_chunks.sum(), 1)
    yield from _grade(
        merged, COALESCED, f"{merged:.1%} of the chunks were merged with the one before when they were read"
    )


def _of_client(step: Any, row: dict[str, Any], health: pd.DataFrame, watch: pd.DataFrame) -> Iterator[Finding]:
    target = step.target_users
    concurrency = row[names.OBSERVED_CONCURRENCY]
    text = (
        f"observed concurrency {concurrency:.3g} is short of {target} users: the client pauses, or answers fail at once"
    )
    yield from _grade(1 - concurrency / target, SHORT_CONCURRENCY, text)
    for worker, last_us in health.groupby("worker").us.max().items():
        silent_s = (step.end_us - last_us) / MICRO
        if silent_s > SILENT_S and last_us > step.started_us - SILENT_S * MICRO:
            yield Verdict.INVALID, f"worker {worker} fell silent {silent_s:.0f} s before the window closed"
        elif silent_s > SILENT_S:
            yield Verdict.INVALID, f"worker {worker} was gone"
    if not len(watch):
        return
    busiest = watch.groupby("worker").cpu_ratio.mean()
    text = f"client CPU {busiest.max():.0%} of a core (worker {busiest.idxmax()}): use more workers"
    yield from _grade(float(busiest.max()), CPU, text)
    users = watch.groupby("worker").users.mean().sum()
    yield from _grade(1 - users / target, SHORT_USERS, f"{users:.1f} users were up instead of {target}")
    moved_s = watch.groupby("worker").clock_step_us.apply(lambda moves: moves.abs().sum()).max() / MICRO
    yield from _grade(
        moved_s, CLOCK_STEP_S, f"the wall clock moved by {moved_s * 1000:.1f} ms against the monotonic one"
    )
