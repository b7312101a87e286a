"""The verdict on one figure of one step: where its change lies, and how sure that is."""

import dataclasses
import enum
import math
from collections.abc import Sequence

import numpy as np

from analysis import spread
from analysis.budget import Budget, Form, log_limit
from analysis.change import Change, Share, of_logs, of_shares
from analysis.doubt import SHARES, Unjudgeable, figures_of, pooled, share_of, value_of
from analysis.kept import StepKept
from analysis.spread import Figure, Spread
from tokenswarm.metrics import METRICS

SHOWN_SPREAD_RUNS = 3  # baseline runs from which on lying among them says something
MANY_RUNS = 5  # of a baseline: more of them are no advice
MARGIN = 1.2  # on a length that would just do
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


def judge(
    budget: Budget,
    where: str,
    run: StepKept | None,
    baselines: Sequence[StepKept | None],
    comparisons: int,
    gating: bool = True,
    stated: Spread | None = None,
) -> Judged:
    """Never raises: what cannot be judged is invalid, with its reason. `stated`: the spread from run to run, if measured."""
    try:
        there = [step for step in baselines if step is not None]
        if run is None:
            raise Unjudgeable("the run has no such step")
        if not there or len(there) < len(baselines):
            raise Unjudgeable("the baseline has no such step")
        if budget.metric.name in SHARES:
            return _judge_share(budget, where, run, there, comparisons, gating)
        return _judge_log(budget, where, run, there, comparisons, gating, stated)
    except Unjudgeable as why:
        nan = math.nan
        return Judged(where, budget, gating, nan, nan, nan, nan, nan, nan, False, Verdict.INVALID, str(why))


def _judge_log(
    budget: Budget,
    where: str,
    run: StepKept,
    baselines: Sequence[StepKept],
    comparisons: int,
    gating: bool,
    stated: Spread | None,
) -> Judged:
    run_value = value_of(run, budget, "this run")
    base_values = [value_of(step, budget, "the baseline") for step in baselines]
    of_run, *of_base = figures_of([run, *baselines], budget, [run_value, *base_values])
    base = math.exp(float(np.mean([one.log for one in of_base])))
    change = of_logs(of_run, of_base, budget.sign, stated, comparisons)
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
    if len(baselines) < SHOWN_SPREAD_RUNS or change.harm > 0 or spread.of_runs([baselines], Spread(0.0)).sd < limit:
        return False
    logs, reach = [one.log for one in baselines], change.t_high * run.sd
    return min(logs) <= run.log - reach and run.log + reach <= max(logs)


def longer(change: Change, limit: float, window_s: float, baselines: int) -> str:
    """How much longer both runs would have to be, if the change stays what it is."""
    distance = abs(limit - change.harm) / change.t_high
    room = distance**2 - change.between**2
    if room <= 0 and change.between > distance:
        more = "keep more baseline runs" if baselines < MANY_RUNS else "run on a quieter machine"
        return f"longer runs would not decide it: runs differ by ±{change.between:.1%} from each other; {more}"
    return _times(change.within**2 / room, window_s)


def _times(factor: float, window_s: float) -> str:
    if not factor <= MOST_TIMES:
        return "the change is about as large as the budget: no run of sensible length decides it"
    factor = max(MARGIN, MARGIN * factor)
    seconds = window_s * factor
    said = f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
    return f"would need windows of about {said}, {factor:.1f} times as long, in both runs"


def _judge_share(
    budget: Budget, where: str, run: StepKept, baselines: Sequence[StepKept], comparisons: int, gating: bool
) -> Judged:
    value_of(run, budget, "this run")
    for step in baselines:
        value_of(step, budget, "the baseline")
    of_run, of_base = share_of(run, budget), pooled([share_of(step, budget) for step in baselines])
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
