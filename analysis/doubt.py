"""A figure of a step with its doubt: how sure its few seconds make it, or why it cannot be judged at all."""

import functools
import math
from collections.abc import Sequence

import numpy as np

from analysis import kept, names
from analysis.budget import Budget
from analysis.change import Share
from analysis.kept import StepKept
from analysis.resampling import COARSE, FINE, draws, quantiles, sums
from analysis.spread import Figure

LEAST_REQUESTS_DEEP = 4.0  # a window shorter than so many requests after each other shows no variation in time
UNKNOWN_AT = 0.05  # of the resamples in which the quantile is not reached: beyond, its spread is not known

# Which counts a figure of a whole step is made of: a rate of sums, a share of hits.
RATES = {
    names.OUTPUT_TOKENS_PER_S: (kept.OUTPUT_TOKENS,),
    names.TOTAL_TOKENS_PER_S: (kept.OUTPUT_TOKENS, kept.PROMPT_TOKENS),
    names.REQUESTS_PER_S: (kept.COMPLETED,),
    names.GOODPUT_PER_S: (kept.MET,),
}
SHARES = {
    names.ERROR_RATIO: (kept.NOT_OK, kept.JUDGED),
    names.TRUNCATED_RATIO: (kept.TRUNCATED, kept.OK),
    names.SLO_ATTAINMENT: (kept.SENT_MET, kept.SENT),
}


class Unjudgeable(Exception):
    """Why a figure has no verdict, for a person."""


def value_of(step: StepKept, budget: Budget, whose: str) -> float:
    """The figure, if the step may be believed. Raises Unjudgeable."""
    of_requests = budget.metric.name not in RATES and budget.metric.name not in SHARES
    if not kept.valid(step.verdict if of_requests else step.client_verdict):
        raise Unjudgeable(f"the step of {whose} is invalid: {step.reasons}")
    value = step.figures.get(budget.name, math.nan)
    if not math.isfinite(value):
        why = next((part for part in step.withheld.split("; ") if budget.name in part), "")
        said = why.partition(": ")[2] or "it was not measured"
        raise Unjudgeable(f"{whose} has no {budget.name}: {said}")
    if not step.window_s >= LEAST_REQUESTS_DEEP * step.request_s:
        needed = LEAST_REQUESTS_DEEP * step.request_s
        raise Unjudgeable(
            f"the window of {whose} ({step.window_s:.0f} s) is too short for requests of {step.request_s:.1f} s: "
            f"{needed:.0f} s at least"
        )
    return value


def figures_of(steps: Sequence[StepKept], budget: Budget, values: Sequence[float]) -> list[Figure]:
    """The logarithms of a figure in several runs, each with its doubt. Raises Unjudgeable.

    Blocks cut the correlation in time at their seams, the shorter they are the more. By how much is seen by comparing two
    lengths of block; all runs together tell it, since it is the server's, and one run alone tells it badly.
    """
    pairs = [_variances(step, budget, value) for step, value in zip(steps, values, strict=True)]
    fine, coarse = (sum(pair[which] for pair in pairs) for which in (0, 1))
    widened = max(1.0, 2 * coarse / fine - 1) if fine else 1.0
    return [
        Figure(math.log(value), math.sqrt(of_fine * widened), FINE - 1)
        for value, (of_fine, _) in zip(values, pairs, strict=True)
    ]


def _variances(step: StepKept, budget: Budget, value: float) -> tuple[float, float]:
    """Of the logarithm of a figure, by blocks of each length."""
    if value <= 0:
        raise Unjudgeable(f"{budget.name} is {value:g}: there is no percentage of that")
    name = budget.metric.name
    if name in RATES:
        if any(one not in step.counts for one in RATES[name]):
            raise Unjudgeable(f"{budget.name} was not kept")
        per_cell = np.sum([step.counts[one] for one in RATES[name]], axis=0)
        found = [sums(per_cell, _drawn(n)) / per_cell.sum() for n in (FINE, COARSE)]
    else:
        source, quantile = _source(budget)
        samples = step.samples.get(source)
        if samples is None or not len(samples):
            raise Unjudgeable(f"no sample of {budget.name} was kept")
        found = [np.log(np.maximum(quantiles(samples, quantile, _drawn(n)), 1.0)) for n in (FINE, COARSE)]
    if max(float(np.isnan(one).mean()) for one in found) > UNKNOWN_AT:
        raise Unjudgeable(f"{budget.name} rests on requests that were still open when the window closed")
    fine, coarse = (float(np.nanvar(one, ddof=1)) * n / (n - 1) for one, n in zip(found, (FINE, COARSE), strict=True))
    return fine, coarse


def _source(budget: Budget) -> tuple[str, float]:
    """The samples that a quantile is of. What a user sees per second is the inverse of TPOT: its p05 is TPOT's p95."""
    which = budget.statistic or ""
    if budget.metric.name == names.USER_TOKENS_PER_S:
        return names.TPOT, 1 - names.SLOW_QUANTILES[which]
    return budget.metric.name, names.QUANTILES[which]


@functools.lru_cache(maxsize=4)
def _drawn(n_blocks: int) -> np.ndarray:
    return draws(n_blocks, seed=1)


def share_of(step: StepKept, budget: Budget) -> Share:
    """Raises Unjudgeable."""
    hits_name, of_name = SHARES[budget.metric.name]
    if hits_name not in step.counts:
        raise Unjudgeable(f"{budget.name} was not kept")
    hits, of = step.counts[hits_name], step.counts[of_name]
    total = float(of.sum())
    if not total:
        raise Unjudgeable(f"{budget.name} is a share of nothing: no request counts")
    share = float(hits.sum()) / total
    drawn = _drawn(COARSE)
    with np.errstate(invalid="ignore", divide="ignore"):
        resampled = sums(hits, drawn) / sums(of, drawn)
    variance = share * (1 - share) / total
    excess = float(np.nanvar(resampled)) / variance if variance else 1.0
    return Share(float(hits.sum()), total, min(max(1.0, excess), total))


def pooled(shares: Sequence[Share]) -> Share:
    """All baseline runs as one; what they differ by beyond chance widens it."""
    hits, n = sum(one.hits for one in shares), sum(one.n for one in shares)
    excess, p = max(one.excess for one in shares), hits / n
    if len(shares) > 1 and 0 < p < 1:
        apart = sum((one.hits - one.n * p) ** 2 / (one.n * p * (1 - p)) for one in shares) / (len(shares) - 1)
        excess = max(excess, apart)
    return Share(hits, n, min(excess, n))
