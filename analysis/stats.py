"""Statistics that carry their doubts. Numbers in, `Estimate`s out; units are the caller's.

An interval begins as that of independent samples (of order statistics, whatever the distribution; Student's for a mean)
and is widened by what correlation in time takes away (`dependence`). Where correlated samples are worth so few that it
would reach beyond the smallest or largest of them, it ends there and says so.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from analysis.dependence import CONFIDENCE, INDEPENDENT, Spread, coarser, in_order, spread, student

BLOCK = 100_000  # samples whose copies a processor's cache holds


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval. NaN is withheld, and `warning` says why; `n` is what it stands on."""

    value: float
    low: float
    high: float
    n: int
    warning: str | None = None

    def scaled(self, factor: float) -> "Estimate":
        return dataclasses.replace(self, value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def inverted(self) -> "Estimate":
        """1 / this; the ends of the interval change places. 1 / 0 does not exist."""
        value, high, low = (1 / x if x else np.nan for x in (self.value, self.low, self.high))
        return dataclasses.replace(self, value=value, low=low, high=high)


def withheld(n: int, warning: str) -> Estimate:
    return Estimate(np.nan, np.nan, np.nan, n, warning)


def smallest_n(quantile: float) -> int:
    """The fewest samples whose smallest and largest enclose this quantile with 95 % confidence: 6, 59, 299."""
    n = 1
    while 1 - quantile**n - (1 - quantile) ** n < CONFIDENCE:
        n += 1
    return n


@functools.lru_cache(maxsize=4096)
def order_interval(n: int, quantile: float) -> tuple[int, int] | None:
    """Ranks (1-based) of the order statistics that enclose the quantile with at least 95 % confidence, whatever the
    distribution: P(X[low] ≤ q ≤ X[high]) = P(low ≤ Binomial(n, quantile) < high). None where no pair does.
    """
    if n < smallest_n(quantile):
        return None
    ranks = np.arange(_reach(n, quantile, -1), _reach(n, quantile, 1) + 1)
    below = _binomial_below(ranks, n, quantile)
    none = (1 - quantile) ** n
    tail = (1 - CONFIDENCE) / 2
    low = int(ranks[np.flatnonzero(below <= tail)[-1]]) if (below <= tail).any() else 0
    high = int(ranks[np.flatnonzero(below >= 1 - tail)[0]])
    if low < 1:  # no equal tails at this n: all the doubt goes to the side that has room
        low = 1
        high = int(ranks[np.flatnonzero(below - none >= CONFIDENCE)[0]])
    elif high > n:
        high = n
        inside = 1 - quantile**n - below >= CONFIDENCE
        low = int(ranks[np.flatnonzero(inside)[-1]])
    return low, high


def _binomial_below(ranks: np.ndarray, n: int, quantile: float) -> np.ndarray:
    """P(Binomial(n, quantile) < rank) for neighbouring `ranks` that hold all of its mass."""
    if not 0 < quantile < 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {quantile}")
    counts = ranks[(ranks >= 0) & (ranks <= n)]
    steps = np.log((n - counts[:-1]) / (counts[:-1] + 1)) + math.log(quantile / (1 - quantile))
    weights = np.concatenate([[0.0], np.cumsum(steps)])
    mass = np.exp(weights - weights.max())
    upto = np.concatenate([[0.0], np.cumsum(mass / mass.sum())])
    found: np.ndarray = upto[np.clip(ranks - counts[0], 0, len(counts))]
    return found


def _reach(n: int, quantile: float, side: int) -> int:
    """A rank surely outside the interval (8 standard deviations), within 0…n + 1."""
    spread = 8 * np.sqrt(n * quantile * (1 - quantile)) + 8
    return int(np.clip(np.floor(n * quantile + side * spread), 0, n + 1))


@dataclasses.dataclass(frozen=True, slots=True)
class Pieces:
    """Samples by piece of time: `of[i]` is that of sample i, one of `groups`."""

    of: np.ndarray
    groups: int


class Ordered:
    """Samples in order; where some are right-censored, their Kaplan-Meier distribution stands for them.

    `at(rank)` is the rank-th of `n` order statistics. With censoring, rank k of the n seen samples lies where the
    estimated distribution reaches k / n, and is NaN where it never does: that far nothing was seen.
    """

    def __init__(
        self, values: np.ndarray, censored: np.ndarray | None = None, pieces: np.ndarray | None = None
    ) -> None:
        """values: in order of time, unless `pieces` says which of `dependence.MOST_GROUPS` pieces of time each is of."""
        self.open = 0 if censored is None else int(censored.sum())
        self.n = len(values) - self.open
        self._values, self._pieces = values, pieces
        if pieces is not None:
            self._in_piece = Pieces(*coarser(pieces, len(pieces)))
        seen = values if censored is None else values[~censored]
        self.largest = float(seen.max()) if len(seen) else np.nan  # of those seen to their end
        if not self.open or censored is None:
            self._times = np.sort(values)
            return
        self._censored = censored
        self._times, self._place = np.unique(values, return_inverse=True)
        self._died = np.bincount(self._place[~censored], minlength=len(self._times)).astype(float)
        gone = np.cumsum(np.bincount(self._place, minlength=len(self._times)))
        self._at_risk = np.concatenate([[len(values)], len(values) - gone[:-1]]).astype(float)
        self._reached = 1 - np.cumprod(1 - self._died / self._at_risk)

    def at(self, rank: float) -> float:
        if not self.open:
            return float(self._times[int(rank) - 1])
        index = int(np.searchsorted(self._reached, rank / self.n - 1e-12))
        return float(self._times[index]) if index < len(self._times) else np.nan

    def percentile(self, quantile: float) -> Estimate:
        """By linear interpolation between order statistics, as numpy does."""
        return self.percentiles([quantile])[0]

    def percentiles(self, quantiles: Sequence[float]) -> list[Estimate]:
        """Each of `percentile`, in fewer passes over the samples than one by one."""
        values = [self._interpolated(quantile) for quantile in quantiles]
        spreads = iter(self._spreads([value for value in values if not np.isnan(value)]))
        by = [INDEPENDENT if np.isnan(value) else next(spreads) for value in values]
        return list(map(self._estimate, quantiles, values, by))

    def _interpolated(self, quantile: float) -> float:
        """NaN where there is no interval."""
        if order_interval(self.n, quantile) is None:
            return np.nan
        position = (self.n - 1) * quantile
        below = int(position)
        floor, ceiling = self.at(below + 1), self.at(min(below + 2, self.n))
        return floor + (ceiling - floor) * (position - below)

    def _estimate(self, quantile: float, value: float, by: Spread) -> Estimate:
        if self.n == 0:
            return withheld(0, "no samples" if not self.open else f"none of {self.open} had ended")
        ranks = order_interval(self.n, quantile)
        if ranks is None:
            return withheld(self.n, f"n too small: {self.n}, needs {smallest_n(quantile)}")
        (first, last), warning = self._widened(ranks, quantile, by)
        if np.isnan([value, self.at(ranks[1])]).any():
            return withheld(self.n, f"{self.open} of {self.n + self.open} were still open when the window closed")
        low, high = self.at(first), self.at(last)
        return Estimate(value, low, float(self._times[-1]) if np.isnan(high) else high, self.n, warning)

    def _widened(self, ranks: tuple[int, int], quantile: float, by: Spread) -> tuple[tuple[int, int], str | None]:
        if by.factor <= 1:
            return ranks, None
        centre = self.n * quantile
        low = math.floor(centre - (centre - ranks[0]) * by.factor)
        high = math.ceil(centre + (ranks[1] - centre) * by.factor)
        worth = max(int(self.n / by.effect), 1)
        is_cut = low < 1 or np.isnan(self.at(high)) if self.open else low < 1 or high > self.n
        warning = f"{self.n} correlated samples are worth {worth}: the interval is cut" if is_cut else None
        return (max(low, 1), min(high, self.n)), warning

    def _spreads(self, values: Sequence[float]) -> list[Spread]:
        """What correlation does to the share of samples up to each of `values`."""
        if self.open:
            influences = [self._influence(value) for value in values]
            return [spread(self._by_group(one), float((one**2).sum())) for one in influences]
        if self._pieces is not None:
            return self._spreads_by_piece(values)
        found = []
        for value in values:
            above = self._values > value
            share = np.count_nonzero(above) / len(above)
            found.append(spread(self._by_group(above - share), len(above) * share * (1 - share)))
        return found

    def _spreads_by_piece(self, values: Sequence[float]) -> list[Spread]:
        """In one pass: samples are counted by piece of time, and by how many of `values` they lie above."""
        if not values:
            return []
        bounds = np.unique(values)
        groups, width = self._in_piece.groups, len(bounds) + 1
        counts = np.zeros(groups * width, np.int64)
        for piece, some in self._blocks(self._values):
            place = piece.astype(np.int32) * width
            for bound in bounds:
                place += some > bound
            counts += np.bincount(place, minlength=groups * width)
        table = counts.reshape(groups, width)
        above = table[:, ::-1].cumsum(axis=1)[:, ::-1]  # in column k: those above k of the bounds or more
        found = []
        for value in values:
            beyond = above[:, np.searchsorted(bounds, value) + 1]
            share = beyond.sum() / len(self._values)
            sums = beyond - share * above[:, 0]
            found.append(spread(sums, len(self._values) * share * (1 - share)))
        return found

    def _blocks(self, values: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """`(piece of time, value)` of some samples at once: no more than a processor's cache holds."""
        for first in range(0, len(values), BLOCK):
            yield self._in_piece.of[first : first + BLOCK], values[first : first + BLOCK]

    def _by_group(self, residuals: np.ndarray) -> np.ndarray:
        return np.bincount(in_order(len(residuals)), residuals)

    def _influence(self, value: float) -> np.ndarray:
        """What each sample, seen or open, adds to the estimated share above `value` (up to a common factor)."""
        hazard = np.cumsum(self._died / self._at_risk**2)
        upto = np.minimum(self._place, np.searchsorted(self._times, value, side="right") - 1)
        found = np.where(upto >= 0, hazard[np.maximum(upto, 0)], 0.0)
        ended = ~self._censored & (self._values <= value)
        found[ended] -= 1 / self._at_risk[upto[ended]]
        return found

    def mean(self) -> Estimate:
        """Mean with Student's interval; with censoring the mean up to the longest time watched, a lower bound."""
        if self.n < 2:
            return withheld(self.n, f"n too small: {self.n}, needs 2")
        watched = self._values.mean(dtype=np.float64)
        if self._pieces is None:
            residuals = self._values - watched
            sums, squares = self._by_group(residuals), float(np.square(residuals).sum())
        else:
            sums, squares = self._of_pieces(watched)
        factor = student(self.n - 1) * spread(sums, squares).factor
        if not self.open:
            half = factor * math.sqrt(squares / (self.n - 1) / self.n)
            return Estimate(float(watched), float(watched) - half, float(watched) + half, self.n)
        return self._restricted_mean(factor)

    def _of_pieces(self, mean: float) -> tuple[np.ndarray, float]:
        """Sum of the residuals in each piece of time, and the sum of all their squares."""
        sums, squares = np.zeros(self._in_piece.groups), 0.0
        for piece, values in self._blocks(self._values):
            residuals = values - mean
            sums += np.bincount(piece, residuals, minlength=len(sums))
            squares += float(np.square(residuals).sum())  # no BLAS: its threads cost more than they save
        return sums, squares

    def _restricted_mean(self, factor: float) -> Estimate:
        survival = np.concatenate([[1.0], 1 - self._reached])
        widths = np.diff(np.concatenate([[0.0], self._times]))
        areas = survival[:-1] * widths
        value = float(areas.sum())
        # Spread of the estimated distribution itself; the mass never seen sits at the longest time watched.
        jumps = np.diff(np.concatenate([[0.0], self._reached]))
        jumps[-1] += survival[-1]
        half = factor * float(np.sqrt((jumps * (self._times - value) ** 2).sum() / max(self.n - 1, 1)))
        warning = None
        if survival[-1] > 1e-12:  # the longest one is still open
            warning = f"lower bound: {self.open} of {self.n + self.open} were still open when the window closed"
        return Estimate(value, value - half, value + half, self.n, warning)


def ratio(new: Estimate, old: Estimate) -> Estimate:
    """new / old of two independent runs, such as the same quantile of the same step, with its 95 % interval.

    The two intervals' own ends are combined on the scale of logarithms (Zou and Donner's MOVER), so that lopsided
    intervals stay lopsided. Withheld where either is, or is not above zero.
    """
    n = min(new.n, old.n)
    if not all(one.value > 0 and one.low > 0 and one.high > 0 for one in (new, old)):
        return withheld(n, new.warning or old.warning or "no ratio: a value is not above zero")
    middle = math.log(new.value / old.value)
    down = math.hypot(math.log(new.value / new.low), math.log(old.high / old.value))
    up = math.hypot(math.log(new.high / new.value), math.log(old.value / old.low))
    return Estimate(math.exp(middle), math.exp(middle - down), math.exp(middle + up), n, new.warning or old.warning)


def reasons(estimates: Iterable[tuple[str, Estimate]]) -> list[str]:
    """What was withheld, and why: one text for each reason."""
    found: dict[str, list[str]] = {}
    for name, estimate in estimates:
        if np.isnan(estimate.value) and estimate.warning:
            found.setdefault(estimate.warning, []).append(name)
    return [f"{', '.join(names)}: {warning}" for warning, names in found.items()]
