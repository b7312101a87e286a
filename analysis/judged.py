"""Does a step meet an objective? With how much doubt: the figures' intervals say."""

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Any

from analysis import names
from analysis.evidence import value
from analysis.slo import Objective
from analysis.stats import CONFIDENCE
from tokenswarm.record import Outcome


class Met(enum.StrEnum):
    """In order: a step is as good as its worst objective."""

    SURE = "met for sure"  # the whole 95 % interval is within the limit
    MET = "met"  # the value is, but its interval reaches beyond, or there is none
    UNKNOWN = "not shown"  # the figure is withheld
    MISSED = "missed"  # the value is beyond the limit, but its interval reaches within, or there is none
    MISSED_SURE = "missed for sure"  # the whole interval is beyond


MEETS = (Met.SURE, Met.MET)
MISSES = (Met.MISSED, Met.MISSED_SURE)


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """One objective at one step; value and interval in base units, NaN where withheld."""

    objective: Objective
    value: float
    low: float
    high: float
    met: Met


@dataclasses.dataclass(frozen=True, slots=True)
class StepJudged:
    step: int
    users: int  # target
    concurrency: float  # observed
    met: Met
    objectives: tuple[Judged, ...]

    def worst(self) -> Judged:
        """The objective that decided."""
        return max(self.objectives, key=lambda judged: list(Met).index(judged.met))


def judge_step(row: dict[Any, Any], objectives: Sequence[Objective]) -> StepJudged:
    """`row` of the summary against all objectives, of which there is at least one."""
    judged = tuple(_judge(row, objective) for objective in objectives)
    worst = max((one.met for one in judged), key=list(Met).index)
    return StepJudged(
        int(row[names.STEP]), int(row[names.TARGET_USERS]), float(row[names.OBSERVED_CONCURRENCY]), worst, judged
    )


def _judge(row: dict[Any, Any], objective: Objective) -> Judged:
    figure = value(row, objective.column())
    low, high = _interval(row, objective, figure)
    if math.isnan(figure):
        return Judged(objective, figure, low, high, _by_milder(row, objective))
    excesses = [objective.excess(end) for end in (low, high)]
    if objective.excess(figure) <= 0:
        sure = all(excess <= 0 for excess in excesses)  # NaN is not
        return Judged(objective, figure, low, high, Met.SURE if sure else Met.MET)
    sure = all(excess > 0 for excess in excesses)
    return Judged(objective, figure, low, high, Met.MISSED_SURE if sure else Met.MISSED)


def _by_milder(row: dict[Any, Any], objective: Objective) -> Met:
    """A withheld p95 is beyond the limit where the p50 is already."""
    found = Met.UNKNOWN
    for which in objective.milder():
        if objective.excess(value(row, objective.column(statistic=which))) > 0:
            ends = [value(row, objective.column(bound, which)) for bound in (names.LOW, names.HIGH)]
            found = Met.MISSED_SURE if all(objective.excess(end) > 0 for end in ends) else found
            found = Met.MISSED if found is Met.UNKNOWN else found
    return found


def _interval(row: dict[Any, Any], objective: Objective, figure: float) -> tuple[float, float]:
    """The summary's interval; for a share without one, that of Clopper and Pearson from the counts; else NaN."""
    low, high = (value(row, objective.column(bound)) for bound in (names.LOW, names.HIGH))
    if not math.isnan(low) or math.isnan(figure):
        return low, high
    sent, ok = value(row, names.SENT), value(row, names.outcome_count(Outcome.OK))
    of = {
        names.ERROR_RATIO: sent - value(row, names.outcome_count(Outcome.CANCELLED)),
        names.TRUNCATED_RATIO: ok,
        names.SLO_ATTAINMENT: sent,
    }.get(objective.metric.name, math.nan)
    return _share_interval(figure, of) if of > 0 else (math.nan, math.nan)


def _share_interval(share: float, n: float) -> tuple[float, float]:
    from scipy.special import betaincinv  # imported late: scipy is slow to load

    hits, tail = round(share * n), (1 - CONFIDENCE) / 2
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    return low, float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
