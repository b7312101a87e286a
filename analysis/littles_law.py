"""Little's law as a check: requests in flight = completions/s × mean time in the system, in a steady state.

All three come from the same rows by different roads, so a mismatch means a window that was not steady, rows that are
missing, or times that are wrong.
"""

import dataclasses
import math
from typing import Any

import pandas as pd

from analysis import names
from analysis.evidence import evidence, value

TOLERANCE = 0.10  # of the observed concurrency; answers that straddle the window's ends come on top
MOST_CENSORED = 0.25  # of the requests: beyond, the mean time is known as a lower bound only
MOST_ERRORS = 0.05  # of the requests: failed ones are in flight too, but in no latency


@dataclasses.dataclass(frozen=True, slots=True)
class LawCheck:
    """One step: what was in flight, what the law expects, and how far they may lie apart (shares of the former)."""

    step: int
    users: int
    observed: float
    expected: float  # NaN where it cannot be told
    mismatch: float
    tolerance: float
    unchecked: str = ""  # why it could not be checked

    @property
    def holds(self) -> bool | None:
        return None if self.unchecked else abs(self.mismatch) <= self.tolerance


def check(summary: pd.DataFrame) -> list[LawCheck]:
    """Every step that is evidence."""
    return [_check(row) for row in evidence(summary).to_dict("records")]


def _check(row: dict[Any, Any]) -> LawCheck:
    observed, rate = value(row, names.OBSERVED_CONCURRENCY), value(row, names.REQUESTS_PER_S)
    mean_s = value(row, names.stat(names.E2E, names.MEAN))
    completed = rate * value(row, names.WINDOW_LENGTH_S)
    expected = rate * mean_s
    # Each request in flight may be cut by either end of the window: half an answer each, of those completed.
    tolerance = TOLERANCE + (observed / completed if completed > 0 else math.inf)
    censored = value(row, names.CENSORED) / value(row, names.SENT) if value(row, names.SENT) else math.nan
    why = ""
    if censored > MOST_CENSORED:
        why = f"{censored:.0%} of the requests were still open"
    elif value(row, names.ERROR_RATIO) > MOST_ERRORS:
        why = f"{value(row, names.ERROR_RATIO):.0%} of the requests failed"
    elif not expected > 0:
        why = "no mean E2E"
    users = int(row[names.TARGET_USERS])
    return LawCheck(int(row[names.STEP]), users, observed, expected, expected / observed - 1, tolerance, why)
