"""The verdict on one figure of one step: where its change lies, and how sure that is."""

import dataclasses
import enum
import functools
import math
from collections.abc import Sequence

import numpy as np

from analysis import kept, names
from analysis.budget import Budget, Form, log_limit
from analysis.change import FLOOR_SPREAD, TRUSTED_RUNS, Change, Figure, Share, of_logs, of_shares, spread
from analysis.kept import StepKept
from analysis.resampling import COARSE, FINE, draws, quantiles, sums
from tokenswarm.metrics import METRICS

SHOWN_SPREAD_RUNS = 3  # baseline runs from which on lying among them says something
LEAST_REQUESTS_DEEP = 4.0  # a window shorter than so many requests after each other shows no variation in time
UNKNOWN_AT = 0.05  # of the resamples in which the quantile is not reached: beyond, its spread is not known
MOST_TIMES = 50.0  # longer runs than that are no advice


class Verdict(enum.StrEnum):
    """In order of severity: what was seen to be worse weighs more than what was not seen."""

    PASS = "pass"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"
    FAIL = "fail"


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Nothing judged is no pass."""
    return max(verdicts, key=list(Verdict).index, default=Verdict.INVALID)


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """One line of the gate. Values in base units; change, low, high and limit as shares or, `in_points`, differences;
    positive is more, whether or not that is better. NaN where unknown.
    """

    where: str  # "20 users", "quality"
    budget: Budget
    gating: bool
    base: float
    run: float
    change: float
    low: float
    high: float
    limit: float
    in_points: bool
    verdict: Verdict
    reason: str
    improved: bool = False


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


def judge(
    budget: Budget,
    where: str,
    run: StepKept | None,
    baselines: Sequence[StepKept | None],
    comparisons: int,
    gating: bool = True,
    floor: float = FLOOR_SPREAD,
) -> Judged:
    """Never raises: what cannot be judged is invalid, with its reason."""
    try:
        there = [step for step in baselines if step is not None]
        if run is None:
            raise Unjudgeable("the run has no such step")
        if not there or len(there) < len(baselines):
            raise Unjudgeable("the baseline has no such step")
        if budget.metric.name in SHARES:
            return _judge_share(budget, where, run, there, comparisons, gating)
        return _judge_log(budget, where, run, there, comparisons, gating, floor)
    except Unjudgeable as why:
        nan = math.nan
        return Judged(where, budget, gating, nan, nan, nan, nan, nan, nan, False, Verdict.INVALID, str(why))


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


def _judge_log(
    budget: Budget,
    where: str,
    run: StepKept,
    baselines: Sequence[StepKept],
    comparisons: int,
    gating: bool,
    floor: float,
) -> Judged:
    run_value = value_of(run, budget, "this run")
    base_values = [value_of(step, budget, "the baseline") for step in baselines]
    of_run, *of_base = figures_of([run, *baselines], budget, [run_value, *base_values])
    base = math.exp(float(np.mean([one.log for one in of_base])))
    change = of_logs(of_run, of_base, budget.sign, floor, comparisons)
    limit = log_limit(budget, base)
    verdict, reason = _verdict(change, limit)
    if verdict is Verdict.INCONCLUSIVE and among(of_run, of_base, change, limit):
        least, most = (math.exp(pick([one.log for one in of_base])) for pick in (min, max))
        seen = f"({least:.4g} to {most:.4g} {METRICS[budget.metric.name].unit})"
        reason = f"lies inside the run-to-run spread of the baseline {seen}, no worse than its middle"
        verdict = Verdict.PASS
    elif verdict is Verdict.INCONCLUSIVE:
        reason = longer(change, limit, run.window_s, len(baselines))
    low, high = sorted(math.expm1(budget.sign * end) for end in (change.low, change.high))
    return Judged(
        where, budget, gating, base, run_value, math.expm1(budget.sign * change.harm), low, high,
        math.expm1(budget.sign * limit), False, verdict, reason, change.high < 0,
    )  # fmt: skip


def _verdict(change: Change, limit: float) -> tuple[Verdict, str]:
    if not all(map(math.isfinite, (change.harm, change.low, change.high))):
        return Verdict.INVALID, "its interval cannot be told"
    if change.high <= limit:
        return Verdict.PASS, ""
    if change.low > limit:
        return Verdict.FAIL, "worse than its budget, beyond doubt"
    return Verdict.INCONCLUSIVE, ""


def among(run: Figure, baselines: Sequence[Figure], change: Change, limit: float) -> bool:
    """Whether the run cannot be told from the baseline's own runs: among them with its whole interval, and no worse than
    their middle. Only where the machine varies more than the budget: nothing more can be asked of one run there.
    """
    if len(baselines) < SHOWN_SPREAD_RUNS or change.harm > 0 or spread(baselines, 0.0)[0] < limit:
        return False
    logs, reach = [one.log for one in baselines], change.t_high * run.sd
    return min(logs) <= run.log - reach and run.log + reach <= max(logs)


def longer(change: Change, limit: float, window_s: float, baselines: int) -> str:
    """How much longer both runs would have to be, if the change stays what it is."""
    distance = abs(limit - change.harm) / change.t_high
    room = distance**2 - change.between**2
    if room <= 0 and change.between > distance:
        more = "keep more baseline runs" if baselines < TRUSTED_RUNS else "run on a quieter machine"
        return f"longer runs would not decide it: runs differ by ±{change.between:.1%} from each other; {more}"
    return _times(change.within**2 / room, window_s)


def _times(factor: float, window_s: float) -> str:
    if not factor <= MOST_TIMES:
        return "the change is about as large as the budget: no run of sensible length decides it"
    seconds = window_s * factor
    said = f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
    return f"would need windows of about {said}, {factor:.1f} times as long, in both runs"


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


def _pooled(shares: Sequence[Share]) -> Share:
    """All baseline runs as one; what they differ by beyond chance widens it."""
    hits, n = sum(one.hits for one in shares), sum(one.n for one in shares)
    excess, p = max(one.excess for one in shares), hits / n
    if len(shares) > 1 and 0 < p < 1:
        apart = sum((one.hits - one.n * p) ** 2 / (one.n * p * (1 - p)) for one in shares) / (len(shares) - 1)
        excess = max(excess, apart)
    return Share(hits, n, min(excess, n))


def _judge_share(
    budget: Budget, where: str, run: StepKept, baselines: Sequence[StepKept], comparisons: int, gating: bool
) -> Judged:
    value_of(run, budget, "this run")
    for step in baselines:
        value_of(step, budget, "the baseline")
    of_run, of_base = share_of(run, budget), _pooled([share_of(step, budget) for step in baselines])
    change = of_shares(of_run, of_base, budget.sign, comparisons)
    verdict, reason = _verdict(change, budget.size)
    if verdict is Verdict.INCONCLUSIVE:
        reason = _times(_more(budget, of_run, of_base, comparisons), run.window_s)
    low, high = sorted(budget.sign * end for end in (change.low, change.high))
    return Judged(
        where, budget, gating, of_base.value, of_run.value, budget.sign * change.harm, low, high,
        budget.sign * budget.size, True, verdict, reason, change.high < 0,
    )  # fmt: skip


def _more(budget: Budget, run: Share, base: Share, comparisons: int) -> float:
    """How many times as many requests would decide, shares being what they are; inf where not even MOST_TIMES do."""
    times = 1.0
    while times <= MOST_TIMES:
        times *= 1.15
        more = [Share(one.hits * times, one.n * times, one.excess) for one in (run, base)]
        if _verdict(of_shares(more[0], more[1], budget.sign, comparisons), budget.size)[0] is not Verdict.INCONCLUSIVE:
            return times
    return math.inf


def judge_quality(budget: Budget, base: float, run: float, gating: bool = True) -> Judged:
    """The set of prompts is fixed: what is seen of it is all of it."""
    in_points = budget.form is Form.POINTS
    if not (math.isfinite(base) and math.isfinite(run)):
        whose = "the baseline" if math.isnan(base) else "this run"
        nan, why = math.nan, f"{whose} has no {budget.name}: no answer shows it"
        return Judged("quality", budget, gating, base, run, nan, nan, nan, nan, in_points, Verdict.INVALID, why)
    change = run - base if in_points else (run / base - 1 if base else math.nan)
    harm = budget.sign * change
    verdict = Verdict.PASS if harm <= budget.size + 1e-9 else Verdict.FAIL
    if math.isnan(harm):
        verdict = Verdict.INVALID
    reason = "worse than its budget" if verdict is Verdict.FAIL else ""
    return Judged(
        "quality", budget, gating, base, run, change, change, change, budget.sign * budget.size, in_points, verdict, reason,
        harm < -1e-9,
    )  # fmt: skip
