"""The Universal Scalability Law: output tokens/s over observed concurrency, X(N) = γN / (1 + α(N−1) + βN(N−1)).

γ is the throughput of one, α the share that is serial (contention), β the cost of keeping each other informed
(crosstalk). The fit is shown only where it is good; otherwise `reason` says why not.
"""

import dataclasses
import math

import numpy as np
import pandas as pd

from analysis import names
from analysis.evidence import levels
from analysis.usl_fit import coefficients
from analysis.wording import things

LEAST_STEPS = 4  # three coefficients, and one step to contradict them
LEAST_R2 = 0.98
MOST_RESIDUAL = 0.10  # of the measured throughput, at any step: beyond it the curve is of another shape
PLAUSIBLE_GAMMA = 1.5  # γ lies within this factor of throughput / concurrency of the smallest step
FARTHEST_PEAK = 2.0  # times the largest measured concurrency: beyond, a peak is extrapolation, not prediction
STABLE_PEAK = 2.0  # leaving any one step out may move the peak by this factor


@dataclasses.dataclass(frozen=True, slots=True)
class UslFit:
    """NaN where nothing could be fitted. `reason`: why the fit is not to be shown; "" where it is."""

    gamma: float  # tokens/s of one request in flight
    alpha: float
    beta: float
    r2: float
    residual: float  # largest, as a share of the measured throughput
    steps: int
    largest: float  # measured concurrency
    peak_concurrency: float | None  # None: no peak within reach of what was measured
    peak_tokens_per_s: float | None
    reason: str = ""

    @property
    def shown(self) -> bool:
        return not self.reason

    def at(self, concurrency: np.ndarray) -> np.ndarray:
        """Tokens/s at each concurrency."""
        return model(concurrency, self.gamma, self.alpha, self.beta)


def model(n: np.ndarray, gamma: float, alpha: float, beta: float) -> np.ndarray:
    return gamma * n / (1 + alpha * (n - 1) + beta * n * (n - 1))


def fit(summary: pd.DataFrame) -> UslFit | None:
    """None where no step is evidence. Steps with the same users count once."""
    points = levels(summary)
    if not len(points):
        return None
    points = points[points[names.OUTPUT_TOKENS_PER_S] > 0]
    n = points[names.OBSERVED_CONCURRENCY].to_numpy(dtype=float)
    x = points[names.OUTPUT_TOKENS_PER_S].to_numpy(dtype=float)
    if len(n) < LEAST_STEPS:
        nan = math.nan
        reason = f"{things(len(n), 'step')} with a throughput; three coefficients need {LEAST_STEPS}"
        return UslFit(nan, nan, nan, nan, nan, len(n), float(n.max(initial=0)), None, None, reason)
    gamma, alpha, beta = coefficients(n, x)
    fitted = model(n, gamma, alpha, beta)
    spread = float(((x - x.mean()) ** 2).sum())
    r2 = 1 - float(((x - fitted) ** 2).sum()) / spread if spread else math.nan
    residual = float(np.abs(fitted / x - 1).max())
    found = UslFit(gamma, alpha, beta, r2, residual, len(n), float(n.max()), None, None)
    reason = _reason(found, float(x[0] / n[0]), float(n[0]))
    return dataclasses.replace(found, reason=reason) if reason else _with_peak(found, n, x)


def _reason(found: UslFit, of_one: float, smallest: float) -> str:
    """Why the fit is no good, or ""."""
    if not found.r2 >= LEAST_R2:
        return f"R² is {found.r2:.3f}, below {LEAST_R2}"
    if found.residual > MOST_RESIDUAL:
        return f"a step lies {found.residual:.0%} off the curve, more than {MOST_RESIDUAL:.0%}"
    if found.alpha > 0.999:
        return "the whole work would be serial (α = 1): no curve of this law"
    factor = found.gamma / of_one
    if smallest < 2 and not 1 / PLAUSIBLE_GAMMA <= factor <= PLAUSIBLE_GAMMA:
        return f"its throughput of one request is {factor:.2f} times what was measured at the smallest step"
    return ""


def _peak(gamma: float, alpha: float, beta: float) -> float:
    """Concurrency of the highest throughput; inf without crosstalk."""
    return math.sqrt((1 - alpha) / beta) if beta > 0 else math.inf


def _with_peak(found: UslFit, n: np.ndarray, x: np.ndarray) -> UslFit:
    """`found` with its peak where the peak is near what was measured and rests on no single step."""
    peak = _peak(found.gamma, found.alpha, found.beta)
    if not 1 <= peak <= FARTHEST_PEAK * found.largest:
        return found
    if len(n) > LEAST_STEPS:
        others = [_peak(*coefficients(np.delete(n, i), np.delete(x, i))) for i in range(len(n))]
        if max(others) > peak * STABLE_PEAK or min(others) < peak / STABLE_PEAK:
            return found
    top = float(found.at(np.array([peak]))[0])
    return dataclasses.replace(found, peak_concurrency=peak, peak_tokens_per_s=top)
