"""How much worse a figure became, with bounds that a verdict may rest on.

"Harm" is a change towards the bad side: of a logarithm for times and rates, a difference for shares. Two risks are kept
apart. A gate passes only if ALL its comparisons pass, so the bound for passing needs no correction for their number; it
fails if ANY fails, so the bound for failing is corrected for it (Bonferroni).
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from analysis import spread
from analysis.spread import STATED_DF, Figure, Spread

PASS_RISK = 0.01  # that a change as large as its budget is passed
FAIL_RISK = 0.01  # that any of a gate's comparisons fails although every change is within its budget


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """`harm`, its bounds at the two risks, and what its doubt is made of (standard deviations)."""

    harm: float
    low: float
    high: float
    within: float = math.nan  # from too few seconds: shrinks as runs get longer
    between: float = math.nan  # from run to run: shrinks with more baseline runs only
    t_high: float = math.nan


def student(df: float, tail: float) -> float:
    """Student's quantile that is exceeded with probability `tail`."""
    from scipy.special import stdtrit  # imported late: scipy is slow to load

    return float(stdtrit(df, 1 - tail))


def of_logs(run: Figure, baselines: Sequence[Figure], sign: int, stated: Spread | None, comparisons: int) -> Change:
    """`sign`: 1 where lower is better, else -1. `stated`: the spread from run to run, None where nobody measured it; it
    counts for the run and for the baseline.
    """
    n = len(baselines)
    run, baselines = spread.believed(run, baselines)
    base = float(np.mean([one.log for one in baselines]))
    between = spread.of_runs([baselines], stated)
    parts = [(run.sd**2, run.df), *((one.sd**2 / n**2, one.df) for one in baselines)]
    within = math.sqrt(sum(part for part, _ in parts))
    parts.append((between.sd**2 * (1 + 1 / n), between.df))
    variance = sum(part for part, _ in parts)
    df = variance**2 / sum(part**2 / df for part, df in parts) if variance else STATED_DF  # Satterthwaite
    harm, sd = sign * (run.log - base), math.sqrt(variance)
    t_low, t_high = student(df, FAIL_RISK / comparisons), student(df, PASS_RISK)
    return Change(harm, harm - t_low * sd, harm + t_high * sd, within, between.sd * math.sqrt(1 + 1 / n), t_high)


def clopper_pearson(hits: float, n: float, tail: float) -> tuple[float, float]:
    """Bounds of a share, each wrong with probability `tail` at most."""
    from scipy.special import betaincinv

    low = float(betaincinv(hits, n - hits + 1, tail)) if hits > 0 else 0.0
    return low, float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `n`, and by how much their variance exceeds that of independent ones (1 or more)."""

    hits: float
    n: float
    excess: float = 1.0

    @property
    def value(self) -> float:
        return self.hits / self.n if self.n else math.nan

    def bounds(self, tail: float) -> tuple[float, float]:
        return clopper_pearson(self.hits / self.excess, self.n / self.excess, tail)


def of_shares(run: Share, base: Share, sign: int, comparisons: int) -> Change:
    """By Newcombe's method: each end from the ends of the two shares' own (exact) intervals."""
    harm = sign * (run.value - base.value)

    def reach(tail: float, worse: bool) -> float:
        run_low, run_high = run.bounds(tail)
        base_low, base_high = base.bounds(tail)
        up = worse == (sign > 0)
        of_run = run_high - run.value if up else run.value - run_low
        of_base = base.value - base_low if up else base_high - base.value
        return math.hypot(of_run, of_base)

    return Change(
        harm,
        harm - reach(FAIL_RISK / comparisons, worse=False),
        harm + reach(PASS_RISK, worse=True),
        t_high=student(STATED_DF, PASS_RISK),
    )
