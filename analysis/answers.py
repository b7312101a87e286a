"""What the answers of a step tell of its figures: failures, requests still open, times that cannot be."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.cells import MICRO
from analysis.chunks import Chunks
from analysis.grade import Finding, Verdict, grade, never_invalid
from analysis.wording import things
from tokenswarm.metrics import METRICS
from tokenswarm.record import Outcome

# Each pair: beyond the first a step is suspect, beyond the second invalid.
CENSORED = (0.10, 0.60)  # of requests still open: from then on p95, then even p50, is only known to be longer
ERRORS = (0.01, 0.05)  # of requests: percentiles are those of the survivors; beyond 5 % a p95 over all would not exist
IMPOSSIBLE = (0.0, 0.01)  # of rows with times that cannot be
START_BURST = (0.10, 1.0)  # of requests: the common start is in the steady figures, the warm-up is too short
LEAST_REQUESTS = 6  # below, not even a median has a 95 % interval
COUNTS = ["prompt_tokens", "output_tokens", "reasoning_tokens", "cached_tokens", "coalesced", "lag_max_us"]
MOST_TOKENS_PER_S = 10_000.0  # for one user; the fastest hardware known decodes a third of it


def impossible_rows(requests: pd.DataFrame, chunks: Chunks) -> np.ndarray:
    """Rows that cannot be: times before the request, backwards, after its end, faster than any engine; counts below 0."""
    backwards = np.zeros(len(requests), bool)
    falls = np.flatnonzero(np.diff(chunks.at_us) < 0) + 1
    owners = np.searchsorted(chunks.start, falls, side="right") - 1
    inner = falls != chunks.start[owners]
    backwards[owners[inner]] = True
    first_us, last_us = chunks.first_us(), chunks.last_us()
    early = (first_us < 0) | (requests.ended_us < 0).to_numpy()
    late = last_us > requests.ended_us.fillna(np.inf).to_numpy()
    answer_early = (requests.first_answer_us < first_us).to_numpy()
    negative = (requests[COUNTS] < 0).any(axis=1).to_numpy()
    too_fast = (requests.tpot_us < MICRO / MOST_TOKENS_PER_S).to_numpy()
    return backwards | early | late | answer_early | too_fast | negative


def of_answers(row: Mapping[str, Any], sent: pd.DataFrame, impossible: np.ndarray) -> Iterator[Finding]:
    count = len(sent)
    answered = row[names.outcome_count(Outcome.OK)]
    if answered == 0:
        failed, stopped = (row[names.outcome_count(outcome)] for outcome in (Outcome.FAILED, Outcome.CANCELLED))
        if not count:
            yield Verdict.INVALID, "no request was sent in the window"
            return
        text = f"none of the requests sent in the window ({count}) was answered before it closed"
        yield Verdict.INVALID, f"{text} ({failed} failed, we stopped {stopped})"
        return
    if answered < LEAST_REQUESTS:
        yield Verdict.SUSPECT, f"only {answered} of {things(count, 'request')} answered: too few for percentiles"
    errors = row[names.ERROR_RATIO]
    text = f"{errors:.1%} of the requests failed: latencies are those of the other {1 - errors:.1%}"
    yield from grade(errors, ERRORS, text)
    share = row[names.CENSORED] / count
    limits = never_invalid(CENSORED) if row[names.WINDOW_SHORT] else CENSORED  # a step cut short leaves many open
    yield from grade(
        share, limits, f"{share:.1%} of the requests were still open when the window closed: {_bound(row)}"
    )
    yield from grade(
        impossible.mean(),
        IMPOSSIBLE,
        f"impossible times or counts in {int(impossible.sum())} of {things(count, 'row')}: a measurement fault",
    )
    share = row[names.START_BURST] / count
    text = f"{share:.1%} of the requests are the first of their user: the warm-up is too short"
    yield from grade(share, START_BURST, text)


def _bound(row: Mapping[str, Any]) -> str:
    """What open requests mean for E2E: a percentile that is withheld, or one that longer waiting could only raise."""
    label = METRICS[names.E2E].label
    if np.isnan(row[names.stat(names.E2E, "p95")]):
        return f"{label} p95 is withheld, their times are only known to be longer"
    return f"{label} p95 is a lower bound, their times are only known to be longer"
