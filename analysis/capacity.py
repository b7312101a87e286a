"""How much load meets the objectives: the largest step that does, the first that does not, and where between them.

Invalid steps are no evidence. A step with more users is not taken to be worse: what lies below the first miss counts,
and steps above it that meet again are named. Nothing is claimed beyond the largest step.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis import names, slo
from analysis.evidence import evidence
from analysis.judged import MEETS, MISSES, Judged, StepJudged, judge_step
from analysis.slo import Objective


@dataclasses.dataclass(frozen=True, slots=True)
class Crossing:
    """The observed concurrency at which an objective reaches its limit, by straight lines between the steps.

    low, high: where the ends of the figures' intervals do; None: below the smallest, beyond the largest step.
    """

    objective: Objective
    value: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    steps: tuple[StepJudged, ...]  # all that are evidence, by users
    largest: StepJudged | None  # the largest step below the first miss that meets every objective
    first_missed: StepJudged | None
    crossing: Crossing | None  # None where no step meets, none misses, or a figure in between is withheld
    again: tuple[StepJudged, ...]  # steps that meet although one with as many or fewer users missed
    no_evidence: tuple[int, ...]  # users of the steps that are none
    unjudged: tuple[str, ...]  # objectives that no figure of a step stands for


def capacity(summary: pd.DataFrame, slos: Mapping[str, Any] | None) -> Capacity:
    """`summary` as of `health.judge`; slos: name → limit in base units, as in run.json."""
    objectives, unknown = slo.objectives(slos)
    measured = evidence(summary)
    rows = measured.to_dict("records")
    steps = tuple(judge_step(row, objectives) for row in rows) if objectives else ()
    first_missed = next((step for step in steps if step.met in MISSES), None)
    top = math.inf if first_missed is None else first_missed.users
    meeting = [step for step in steps if step.met in MEETS]
    largest = max((step for step in meeting if step.users < top), key=lambda step: step.users, default=None)
    none = summary[~summary[names.STEP].isin(measured[names.STEP])] if len(summary) else summary
    return Capacity(
        steps=steps,
        largest=largest,
        first_missed=first_missed,
        crossing=_between(_crossing(steps, objectives), largest, first_missed),
        again=tuple(step for step in meeting if step.users >= top),
        no_evidence=tuple(sorted(int(users) for users in none[names.TARGET_USERS])) if len(none) else (),
        unjudged=tuple(unknown),
    )


def _crossing(steps: Sequence[StepJudged], objectives: Sequence[Objective]) -> Crossing | None:
    """Of the objective that is reached first; an end of the interval is the smallest over all objectives that are
    reached at all: one whose interval alone reaches beyond its limit, as that of few errors does, bounds nothing.
    """
    if not objectives:
        return None
    bad_end = [
        _reached(steps, index, lambda one: max(_ends(one), default=math.nan)) for index in range(len(objectives))
    ]
    middle = [_reached(steps, index, lambda one: one.objective.excess(one.value)) for index in range(len(objectives))]
    good_end = [
        _reached(steps, index, lambda one: min(_ends(one), default=math.nan)) for index in range(len(objectives))
    ]
    if not math.isfinite(min(middle)):
        return None
    low = min(end for end, reached in zip(bad_end, middle, strict=True) if math.isfinite(reached))
    high = min(good_end)
    return Crossing(
        objectives[int(np.argmin(middle))],
        min(middle),
        low if math.isfinite(low) else None,
        high if math.isfinite(high) else None,
    )


def _between(crossing: Crossing | None, largest: StepJudged | None, missed: StepJudged | None) -> Crossing | None:
    """`crossing` where it lies between the two steps: else the figure that missed is withheld there."""
    if crossing is None or largest is None or missed is None:
        return None
    inside = largest.concurrency <= crossing.value <= missed.concurrency
    return crossing if inside else None


def _ends(one: Judged) -> list[float]:
    """Excesses of the interval's ends, or of the value where it has none."""
    found = [one.objective.excess(end) for end in (one.low, one.high) if not math.isnan(end)]
    return found or [one.objective.excess(one.value)]


def _reached(steps: Sequence[StepJudged], index: int, excess: Callable[[Judged], float]) -> float:
    """Concurrency at which the excess of objective `index` first passes 0; -inf: already at the first step; inf: never."""
    curve = [(step.concurrency, excess(step.objectives[index])) for step in steps]
    curve = [(x, y) for x, y in curve if not math.isnan(y)]
    if not curve:
        return math.inf
    if curve[0][1] > 0:
        return -math.inf
    for (x0, y0), (x1, y1) in itertools.pairwise(curve):
        if y0 <= 0 < y1:
            return x0 + (x1 - x0) * (0 - y0) / (y1 - y0)
    return math.inf
