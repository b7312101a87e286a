"""Which steps an answer may rest on: those that are not invalid, in the order of their load."""

from typing import Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.health import Verdict
from tokenswarm.record import Outcome

SEVERITY = {verdict.value: rank for rank, verdict in enumerate(Verdict)}


def evidence(summary: pd.DataFrame) -> pd.DataFrame:
    """The steps of `summary` that were measured: not invalid, answered, with a window. Sorted by users, then step."""
    if not len(summary):
        return summary
    measured = (
        (summary[names.VERDICT] != Verdict.INVALID)
        & (summary[names.OBSERVED_CONCURRENCY] > 0)
        & (summary[names.outcome_count(Outcome.OK)] > 0)
    )
    return summary[measured].sort_values([names.TARGET_USERS, names.STEP], kind="stable").reset_index(drop=True)


def levels(summary: pd.DataFrame) -> pd.DataFrame:
    """`evidence`, one row a number of users: steps that repeat a load are averaged, and as good as the worst of them."""
    measured = evidence(summary)
    if not len(measured):
        return measured
    worst = measured.assign(**{names.VERDICT: measured[names.VERDICT].map(SEVERITY)})
    numeric = worst.select_dtypes("number").groupby(names.TARGET_USERS, as_index=False)
    found = numeric.mean()
    found[names.VERDICT] = [list(SEVERITY)[rank] for rank in numeric[names.VERDICT].max()[names.VERDICT]]
    return found


def value(row: dict[Any, Any] | pd.Series, column: str) -> float:
    """A figure of a step; NaN where it is withheld or this summary does not have it."""
    found = row.get(column, np.nan)
    return np.nan if found is None else float(found)
