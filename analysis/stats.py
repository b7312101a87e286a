"""Statistics that carry their doubts. Numbers in, `Estimate`s out; units are the caller's.

Intervals here take the samples as independent; a block bootstrap over time can take their place without a change to
whoever reads an `Estimate`.
"""

import dataclasses
import functools
from collections.abc import Iterable

import numpy as np

CONFIDENCE = 0.95


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
    from scipy.special import bdtr  # cumulative binomial; imported late: scipy is slow to load

    if n < smallest_n(quantile):
        return None
    ranks = np.arange(_reach(n, quantile, -1), _reach(n, quantile, 1) + 1)
    below = bdtr(ranks - 1, n, quantile)  # P(Binomial < rank); nan for rank 0
    below = np.where(ranks <= 0, 0.0, below)
    tail = (1 - CONFIDENCE) / 2
    low = int(ranks[np.flatnonzero(below <= tail)[-1]]) if (below <= tail).any() else 0
    high = int(ranks[np.flatnonzero(below >= 1 - tail)[0]])
    if low < 1:  # no equal tails at this n: all the doubt goes to the side that has room
        low = 1
        high = int(ranks[np.flatnonzero(below - bdtr(0, n, quantile) >= CONFIDENCE)[0]])
    elif high > n:
        high = n
        inside = bdtr(n - 1, n, quantile) - below >= CONFIDENCE
        low = int(ranks[np.flatnonzero(inside)[-1]])
    return low, high


def _reach(n: int, quantile: float, side: int) -> int:
    """A rank surely outside the interval (8 standard deviations), within 0…n + 1."""
    spread = 8 * np.sqrt(n * quantile * (1 - quantile)) + 8
    return int(np.clip(np.floor(n * quantile + side * spread), 0, n + 1))


class Ordered:
    """Samples in order; where some are right-censored, their Kaplan-Meier distribution stands for them.

    `at(rank)` is the rank-th of `n` order statistics. With censoring, rank k of the n seen samples lies where the
    estimated distribution reaches k / n, and is NaN where it never does: that far nothing was seen.
    """

    def __init__(self, values: np.ndarray, censored: np.ndarray | None = None) -> None:
        self.open = 0 if censored is None else int(censored.sum())
        self.n = len(values) - self.open
        seen = values if censored is None else values[~censored]
        self.largest = float(seen.max()) if len(seen) else np.nan  # of those seen to their end
        if not self.open or censored is None:
            self._times = np.sort(values)
            return
        from scipy.stats import CensoredData, ecdf  # imported late: scipy is slow to load

        cdf = ecdf(CensoredData.right_censored(values, censored)).cdf
        self._times, self._reached = cdf.quantiles, cdf.probabilities

    def at(self, rank: float) -> float:
        if not self.open:
            return float(self._times[int(rank) - 1])
        index = int(np.searchsorted(self._reached, rank / self.n - 1e-12))
        return float(self._times[index]) if index < len(self._times) else np.nan

    def percentile(self, quantile: float) -> Estimate:
        """By linear interpolation between order statistics, as numpy does."""
        if self.n == 0:
            return withheld(0, "no samples" if not self.open else f"none of {self.open} had ended")
        ranks = order_interval(self.n, quantile)
        if ranks is None:
            return withheld(self.n, f"n too small: {self.n}, needs {smallest_n(quantile)}")
        position = (self.n - 1) * quantile
        below = int(position)
        floor, ceiling = self.at(below + 1), self.at(min(below + 2, self.n))
        value = floor + (ceiling - floor) * (position - below)
        low, high = self.at(ranks[0]), self.at(ranks[1])
        if np.isnan([value, low, high]).any():
            return withheld(self.n, f"{self.open} of {self.n + self.open} were still open when the window closed")
        return Estimate(value, low, high, self.n)

    def mean(self) -> Estimate:
        """Mean with Student's interval; with censoring the mean up to the longest time watched, a lower bound."""
        if self.n < 2:
            return withheld(self.n, f"n too small: {self.n}, needs 2")
        from scipy.special import stdtrit

        quantile = float(stdtrit(self.n - 1, (1 + CONFIDENCE) / 2))
        if not self.open:
            value = float(self._times.mean(dtype=np.float64))
            half = quantile * float(self._times.std(ddof=1, dtype=np.float64)) / np.sqrt(self.n)
            return Estimate(value, value - half, value + half, self.n)
        return self._restricted_mean(quantile)

    def _restricted_mean(self, quantile: float) -> Estimate:
        survival = np.concatenate([[1.0], 1 - self._reached])
        widths = np.diff(np.concatenate([[0.0], self._times]))
        areas = survival[:-1] * widths
        value = float(areas.sum())
        # Spread of the estimated distribution itself; the mass never seen sits at the longest time watched.
        jumps = np.diff(np.concatenate([[0.0], self._reached]))
        jumps[-1] += survival[-1]
        half = quantile * float(np.sqrt((jumps * (self._times - value) ** 2).sum() / max(self.n - 1, 1)))
        warning = None
        if survival[-1] > 0:  # the longest one is still open
            warning = f"lower bound: {self.open} of {self.n + self.open} were still open when the window closed"
        return Estimate(value, value - half, value + half, self.n, warning)


def reasons(estimates: Iterable[tuple[str, Estimate]]) -> list[str]:
    """What was withheld, and why: one text for each reason."""
    found: dict[str, list[str]] = {}
    for name, estimate in estimates:
        if np.isnan(estimate.value) and estimate.warning:
            found.setdefault(estimate.warning, []).append(name)
    return [f"{', '.join(names)}: {warning}" for warning, names in found.items()]
