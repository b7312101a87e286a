"""The knee: where one more user no longer brings its share of throughput.

Rule: the gain of a step is the output tokens/s added per request in flight added since the step below. The curve bends
at the first step whose gain is below half of the first step's throughput per request in flight.
"""

import dataclasses
import itertools
import math
from typing import Any

import pandas as pd

from analysis import names
from analysis.evidence import levels, value

EFFICIENCY = 0.5  # of the first step's throughput per request in flight
SAME_LOAD = 0.01  # steps whose concurrency differs by less tell no slope


@dataclasses.dataclass(frozen=True, slots=True)
class Level:
    """A measured load: its figures are those of one step, or the mean of steps with as many users."""

    users: int
    concurrency: float
    tokens_per_s: float
    low: float  # 95 % interval of tokens_per_s; NaN where the summary has none
    high: float


@dataclasses.dataclass(frozen=True, slots=True)
class Knee:
    """The curve bends between two neighbouring levels."""

    before: Level
    after: Level
    first_gain: float  # tokens/s per request in flight at the smallest level
    gain: float  # the same, per request in flight that `after` has more than `before`
    sure: bool | None  # even the favourable ends of the intervals bend; None: there are no intervals
    asymptotes_cross: float  # where linear growth would reach the highest throughput measured

    @property
    def share(self) -> float:
        return self.gain / self.first_gain


def curve(summary: pd.DataFrame) -> list[Level]:
    """The levels with a throughput, by users; those whose concurrency is that of the level before are left out."""
    found: list[Level] = []
    for row in levels(summary).to_dict("records"):
        level = _level(row)
        if level.tokens_per_s > 0 and (not found or level.concurrency > found[-1].concurrency * (1 + SAME_LOAD)):
            found.append(level)
    return found


def _level(row: dict[Any, Any]) -> Level:
    low, high = (value(row, names.stat(names.OUTPUT_TOKENS_PER_S, bound)) for bound in (names.LOW, names.HIGH))
    rate, concurrency = value(row, names.OUTPUT_TOKENS_PER_S), value(row, names.OBSERVED_CONCURRENCY)
    return Level(int(row[names.TARGET_USERS]), concurrency, rate, low, high)


def knee(summary: pd.DataFrame) -> Knee | None:
    """None where no step bends, or fewer than two levels were measured (`curve` says which)."""
    points = curve(summary)
    if len(points) < 2:
        return None
    first_gain = points[0].tokens_per_s / points[0].concurrency
    highest = max(point.tokens_per_s for point in points)
    for before, after in itertools.pairwise(points):
        added = after.concurrency - before.concurrency
        gain = (after.tokens_per_s - before.tokens_per_s) / added
        if gain < EFFICIENCY * first_gain:
            best = (after.high - before.low) / added
            sure = None if math.isnan(best) else best < EFFICIENCY * first_gain
            return Knee(before, after, first_gain, gain, sure, highest / first_gain)
    return None
