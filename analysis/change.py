"""How much worse a figure became, with bounds that a verdict may rest on.

"Harm" is a change towards the bad side: of a logarithm for times and rates, a difference for shares. Two risks are kept
apart. A gate passes only if ALL its comparisons pass, so the bound for passing needs no correction for their number; it
fails if ANY fails, so the bound for failing is corrected for it (Bonferroni).
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

PASS_RISK = 0.01  # that a change as large as its budget is passed
FAIL_RISK = 0.01  # that any of a gate's comparisons fails although every change is within its budget
FLOOR_SPREAD = 0.01  # standard deviation of a figure from run to run, where no one has measured it
TRUSTED_RUNS = 5  # from so many baseline runs on, their own spread is believed even below the floor
STATED_DF = 1000.0  # of what is stated, not estimated


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A figure of one run: its logarithm and the standard deviation of that, from `df` + 1 blocks."""

    log: float
    sd: float
    df: float


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


def spread(baselines: Sequence[Figure], floor: float) -> tuple[float, float]:
    """Run-to-run standard deviation of a logarithm, and its degrees of freedom: what the runs differ by beyond what
    each is unsure of by itself; at least `floor`, unless there are TRUSTED_RUNS.
    """
    if len(baselines) < 2:
        return floor, STATED_DF
    own = float(np.mean([one.sd**2 for one in baselines]))
    seen = math.sqrt(max(0.0, float(np.var([one.log for one in baselines], ddof=1)) - own))
    if seen <= floor and len(baselines) < TRUSTED_RUNS:
        return floor, STATED_DF
    return seen, len(baselines) - 1.0


def of_logs(run: Figure, baselines: Sequence[Figure], sign: int, floor: float, comparisons: int) -> Change:
    """`sign`: 1 where lower is better, else -1. The spread from run to run counts for the run and for the baseline."""
    n = len(baselines)
    base = float(np.mean([one.log for one in baselines]))
    between, between_df = spread(baselines, floor)
    parts = [(run.sd**2, run.df), *((one.sd**2 / n**2, one.df) for one in baselines)]
    within = math.sqrt(sum(part for part, _ in parts))
    parts.append((between**2 * (1 + 1 / n), between_df))
    variance = sum(part for part, _ in parts)
    df = variance**2 / sum(part**2 / df for part, df in parts) if variance else STATED_DF  # Satterthwaite
    harm, sd = sign * (run.log - base), math.sqrt(variance)
    t_low, t_high = student(df, FAIL_RISK / comparisons), student(df, PASS_RISK)
    return Change(harm, harm - t_low * sd, harm + t_high * sd, within, math.sqrt(between**2 * (1 + 1 / n)), t_high)


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
