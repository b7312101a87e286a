"""How much less a number of samples tell because neighbours in time resemble each other.

Requests of one step share the server's queue and its batches: a slow second is slow for all. The variance of a count or
a sum over such samples is the sum of the autocovariances over all lags, and `Spread.factor` is by how much it widens an
interval that takes the samples as independent.

The lags that count are chosen from the data by the rule of Politis and White for the block length of a block bootstrap
(Econometric Reviews 23, 2004): m is the smallest lag after which K autocorrelations in a row are within
2 √(log10 T / T) of zero; autocovariances up to lag m count fully, and fade out by lag 2 m. The interval is made from that
variance, not by resampling: without chance, in a thousandth of the time, and with less of the bias that a block bootstrap
has from cutting the correlation at its seams. Coverage on simulated AR(1) latencies is a test.
"""

import dataclasses
import functools
import math
import statistics

import numpy as np

CONFIDENCE = 0.95
MOST_GROUPS = 1024  # neighbours in time are summed into at most so many groups: bounds work, and lengthens the reach
LEAST_GROUPS = 20  # fewer show no correlation that could be told from chance
LEAST_PER_GROUP = 8  # samples, where the groups are pieces of time: emptier ones are mostly zeros


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """What correlation does to an interval: multiply its half-width by `factor` (at least 1).

    `effect`: variance / that of independent samples; `lags`: groups of neighbours up to which correlation counts.
    """

    factor: float
    effect: float
    lags: int


INDEPENDENT = Spread(1.0, 1.0, 0)


def spread(sums: np.ndarray, independent: float) -> Spread:
    """From `sums` (T,): the residuals of each group of neighbours, in order of time, that add up to about zero.

    independent: the variance that their total would have if all samples were independent.
    """
    groups = len(sums)
    if groups < LEAST_GROUPS or independent <= 0:
        return INDEPENDENT
    covariance = _autocovariance(sums - sums.mean(), groups // 4 + _run(groups))
    if covariance[0] <= 0:
        return INDEPENDENT
    last = _last_lag(covariance / covariance[0], groups)
    reach = min(2 * last, groups // 4)
    fade = np.minimum(1, 2 * (1 - np.arange(1, reach + 1) / max(2 * last, 1)))
    variance = covariance[0] + 2 * float((fade * covariance[1 : reach + 1]).sum())
    variance /= 1 - min(0.5, (1 + 2 * float(fade.sum())) / groups)  # the mean was taken out of the same few samples
    effect = variance / independent
    if effect <= (1.0 if last else 1 + 2 * math.sqrt(2 / groups)):  # no more than chance
        return INDEPENDENT
    doubt = student(max(groups // (1 + reach), 3)) / statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return Spread(math.sqrt(effect) * doubt, effect, reach)


def _autocovariance(values: np.ndarray, lags: int) -> np.ndarray:
    """Σ values[i] · values[i + k] for k = 0…lags."""
    transformed = np.fft.rfft(values, 2 * len(values))
    found: np.ndarray = np.fft.irfft(transformed * transformed.conj())[: lags + 1]
    return found


def _run(groups: int) -> int:
    return max(5, math.ceil(math.sqrt(math.log10(groups))))


def _last_lag(correlation: np.ndarray, groups: int) -> int:
    """The smallest lag after which `_run` correlations in a row are no more than chance; at most a quarter of all."""
    shown = np.abs(correlation[1:]) >= 2 * math.sqrt(math.log10(groups) / groups)
    in_row = np.lib.stride_tricks.sliding_window_view(shown, _run(groups)).any(axis=1)
    quiet = np.flatnonzero(~in_row)
    return int(quiet[0]) if len(quiet) else groups // 4


def in_order(samples: int) -> np.ndarray:
    """The group of each of `samples` that are in order of time: equally many neighbours in each."""
    return np.arange(samples) * min(samples, MOST_GROUPS) // max(samples, 1)


def coarser(pieces: np.ndarray, samples: int) -> tuple[np.ndarray, int]:
    """`pieces` (which of MOST_GROUPS pieces of time each sample fell into) joined until samples are in most of them."""
    groups = int(np.clip(samples // LEAST_PER_GROUP, 1, MOST_GROUPS))
    if groups == MOST_GROUPS:
        return pieces, groups
    return pieces.astype(np.int64) * groups // MOST_GROUPS, groups


@functools.cache
def student(freedom: int) -> float:
    """Student's t at 97.5 %: Newton's steps from the normal quantile, which approach it from below."""
    target = CONFIDENCE / 2
    at = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    weights = np.ones(2001)  # Simpson's
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    for _ in range(100):
        density = scale * (1 + np.linspace(0, at, 2001) ** 2 / freedom) ** (-(freedom + 1) / 2)
        step = (target - float((density * weights).sum()) * at / 6000) / float(density[-1])
        at += step
        if abs(step) < 1e-12 * at:
            break
    return at
