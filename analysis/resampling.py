"""Resampling in time: whole blocks of a window, because neighbours in time resemble each other.

A window is cut into CELLS equal cells; a resample draws blocks of neighbouring cells, the window taken as a ring. Every
sample counts as often as its cell was drawn. A resampled quantile is that of the weighted samples, by the estimator of
Kaplan and Meier where some are only known to be longer.
"""

import dataclasses
import math

import numpy as np

CELLS = 60  # of a window: fine enough that a block of a twentieth of it still has three
RESAMPLES = 400  # the spread of a figure is then known to 4 %
TOLERANCE = 1e-6  # of sums of weights, which are whole or nearly
FINE, COARSE = 12, 6  # blocks of a window: two lengths, to see how much correlation the seams cut off


@dataclasses.dataclass(frozen=True, slots=True)
class Samples:
    """Samples of one metric in one window, in µs; `weight` is 1 but where many were put together."""

    cell: np.ndarray  # (n,) the cell of the window that each belongs to
    value: np.ndarray  # (n,)
    is_open: np.ndarray  # (n,) bool: known to be `value` or more
    weight: np.ndarray | None = None  # (n,), None: 1 each

    def __len__(self) -> int:
        return len(self.value)


def draws(n_blocks: int, seed: int, resamples: int = RESAMPLES) -> np.ndarray:
    """(resamples, CELLS): how often each cell was drawn. Seeded: the same files give the same verdict."""
    random = np.random.default_rng(seed)
    size = CELLS // n_blocks
    starts = random.integers(0, CELLS, (resamples, math.ceil(CELLS / size)))
    cells = (starts[:, :, None] + np.arange(size)) % CELLS
    flat = (cells.reshape(resamples, -1)[:, :CELLS] + CELLS * np.arange(resamples)[:, None]).ravel()
    return np.bincount(flat, minlength=resamples * CELLS).reshape(resamples, CELLS).astype(np.float32)


def quantiles(samples: Samples, quantile: float, drawn: np.ndarray) -> np.ndarray:
    """(resamples,): the quantile of each resample; NaN where it was not reached."""
    order = np.lexsort((samples.is_open, samples.value))  # at a tie, what was seen comes before what is open
    value, is_open = samples.value[order], samples.is_open[order]
    weight = drawn[:, samples.cell[order]]
    if samples.weight is not None:
        weight = weight * samples.weight[order].astype(np.float32)
    if not is_open.any():
        reached = np.cumsum(weight, axis=1)
        target = quantile * reached[:, -1:]
    else:
        reached, target = 1 - _survival(weight, is_open), np.full((len(drawn), 1), quantile)
    index = (reached < target * (1 - TOLERANCE)).sum(axis=1)
    return np.where(index < len(value), value[np.minimum(index, len(value) - 1)], np.nan)


def _survival(weight: np.ndarray, is_open: np.ndarray) -> np.ndarray:
    at_risk = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1]
    ended = np.where(is_open, 0.0, weight)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = np.where(at_risk > 0, 1 - ended / at_risk, 1.0)
    return np.cumprod(factor, axis=1, dtype=np.float64)


def sums(per_cell: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """(resamples,): the sum of a count kept per cell."""
    return np.asarray(drawn @ per_cell.astype(np.float64))
