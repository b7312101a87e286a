"""What it costs, in words: the cheapest load, the dearest, and what went on answers of no use."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from analysis import cost, names
from analysis.finding import Finding, FindingKind, Severity
from analysis.wording import listed, number, users

WORTH_SAYING = 0.001  # of the hour's cost


def costed(found: pd.DataFrame, carried: int | None) -> Iterator[Finding]:
    """found: as of `cost.costs`; carried: users at the largest step that meets the objectives, if one is known."""
    measured = found[found[[cost.COST_PER_MILLION, cost.ENERGY_PER_TOKEN_J]].notna().any(axis=1)]
    if not len(measured):
        return
    by = cost.COST_PER_MILLION if measured[cost.COST_PER_MILLION].notna().any() else cost.ENERGY_PER_TOKEN_J
    ordered = measured.sort_values([by, names.TARGET_USERS], kind="stable").to_dict("records")
    least, most = ordered[0], ordered[-1]
    text = f"At {users(int(least[names.TARGET_USERS]))}, the cheapest step, {listed(_parts(least))}."
    if len(ordered) > 1:
        text += f" At {users(int(most[names.TARGET_USERS]))}, the dearest, {listed(_parts(most))}."
    chosen = {"cheapest": least, "dearest": most}
    for row in ordered:
        if row[names.TARGET_USERS] == carried and row is not least:
            text += f" At {users(int(row[names.TARGET_USERS]))}, the most that keep to the objectives, {listed(_parts(row))}."
            chosen["carried"] = row
            break
    columns = (names.TARGET_USERS, cost.COST_PER_MILLION, cost.COST_PER_REQUEST, cost.ENERGY_PER_TOKEN_J)
    numbers = {
        f"{which}_{name}": None if pd.isna(row[name]) else float(row[name])
        for which, row in chosen.items()
        for name in columns
    }
    yield Finding(FindingKind.COST, text, numbers)
    yield from _wasted(measured)


def _parts(row: Mapping[Any, Any]) -> list[str]:
    parts = []
    if pd.notna(row[cost.COST_PER_MILLION]):
        parts.append(f"a million output tokens costs {number(row[cost.COST_PER_MILLION])}")
    if pd.notna(row[cost.COST_PER_REQUEST]):
        parts.append(f"a request {number(row[cost.COST_PER_REQUEST])}")
    if pd.notna(row[cost.ENERGY_PER_TOKEN_J]):
        parts.append(f"an output token takes {number(row[cost.ENERGY_PER_TOKEN_J])} J")
    return parts


def _wasted(measured: pd.DataFrame) -> Iterator[Finding]:
    """The step where failed answers cost the largest share; the same for answers cut at their token limit."""
    kinds = {
        cost.FAILED_PER_HOUR: ("failed answers", Severity.WARNING),
        cost.TRUNCATED_PER_HOUR: ("answers cut at their token limit", Severity.INFO),
    }
    for column, (what, severity) in kinds.items():
        shares = measured[column] / measured[cost.COST_PER_HOUR]
        if not (shares > WORTH_SAYING).any():
            continue
        worst = int(shares.fillna(0).to_numpy().argmax())
        row = measured.iloc[worst]
        text = (
            f"Of the {number(row[cost.COST_PER_HOUR])} that an hour cost at {users(int(row[names.TARGET_USERS]))}, "
            f"{number(row[column])} went on {what}: of all steps the largest share."
        )
        numbers = {
            "users": float(row[names.TARGET_USERS]),
            column: float(row[column]),
            "share": float(shares.iloc[worst]),
        }
        yield Finding(FindingKind.COST, text, numbers, severity)
