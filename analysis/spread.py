"""How much runs of the same thing differ from each other, beyond what each is unsure of by itself; no run shows that alone.

Few runs that happen to agree are no proof that runs do. So where nobody measured it a spread is assumed, and runs replace
the assumption only as far as they show: a larger one where they differ by more, a smaller one where they would hardly have
agreed so well if it were larger.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

SHOWN_RISK = 0.05  # that runs agree by luck so well that their spread is taken for smaller than it is
LEAST_DF = 4.0  # what is assumed counts for so much where runs differ by more: else two runs would say less than one
STATED_DF = 1000.0  # of what is stated, not estimated


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A figure of one run: its logarithm and the standard deviation of that, from `df` + 1 blocks."""

    log: float
    sd: float
    df: float


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviation of a figure's logarithm from run to run, and the degrees of freedom it is known with."""

    sd: float
    df: float = STATED_DF


ASSUMED = Spread(0.01)  # where nobody measured it


def of_runs(groups: Sequence[Sequence[Figure]], stated: Spread | None) -> Spread:
    """What runs differ by. `groups`: a figure of several runs of the same thing, a group a step; they are pooled.

    `stated`: what was measured or stated before, which runs that agree better do not lower; None: nobody did.
    """
    least = stated or ASSUMED
    groups = [one for one in groups if len(one) > 1]
    df = sum(len(one) - 1 for one in groups)
    if not df:
        return least
    own = sum((len(one) - 1) * float(np.mean([run.sd**2 for run in one])) for one in groups) / df
    apart = sum((len(one) - 1) * float(np.var([run.log for run in one], ddof=1)) for one in groups) / df
    seen = math.sqrt(max(0.0, apart - own))
    if seen > least.sd:
        return Spread(seen, max(df, LEAST_DF) * (seen**2 / apart) ** 2)  # as sure as `apart` is, of which it is a part
    if stated is not None:
        return stated
    return Spread(min(least.sd, math.sqrt(max(0.0, _at_most(apart, df) - own))))


def believed(run: Figure, baselines: Sequence[Figure]) -> tuple[Figure, list[Figure]]:
    """The same figures, each as unsure as the baseline's runs let it be.

    What a run is unsure of makes runs differ: where they agree far better than that, resampling has overrated it. (It does
    where a few seconds are unlike all others: whole blocks of a window then hold all or nothing of them.) By as much it
    overrates the doubt of the run.
    """
    own = float(np.mean([one.sd**2 for one in baselines]))
    if len(baselines) < 2 or not own:
        return run, list(baselines)
    apart = float(np.var([one.log for one in baselines], ddof=1))
    factor = math.sqrt(min(1.0, _at_most(apart, len(baselines) - 1) / own))
    run, *of_base = (dataclasses.replace(one, sd=one.sd * factor) for one in (run, *baselines))
    return run, of_base


def _at_most(variance: float, df: float) -> float:
    """The variance that an estimate of `variance` would fall short of so far by SHOWN_RISK."""
    from scipy.special import chdtri  # imported late: scipy is slow to load

    return variance * df / float(chdtri(df, 1 - SHOWN_RISK))
