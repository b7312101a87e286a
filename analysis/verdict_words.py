"""The steps that are not valid, in words, each reason said once: "1.1–2.3% of the chunks were merged …" of three steps."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import names
from analysis.health import REASON_SEPARATOR, Verdict
from analysis.wording import counted

DOUBTFUL = (Verdict.INVALID, Verdict.SUSPECT)  # the worst first
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def doubtful(summary: pd.DataFrame) -> Iterator[tuple[Verdict, list[int], str]]:
    """(verdict, users, reasons) of all steps with that verdict, in the order of DOUBTFUL."""
    if not len(summary):
        return
    for verdict in DOUBTFUL:
        rows = summary[summary[names.VERDICT] == verdict].to_dict("records")
        if rows:
            yield verdict, _users(rows), "; ".join(_reasons(rows))


def named(summary: pd.DataFrame) -> str | None:
    """`Invalid: 50 users. Suspect: 1 and 5 users.`; None where every step is valid."""
    found = [f"{verdict.value.capitalize()}: {counted(users)}." for verdict, users, _ in doubtful(summary)]
    return " ".join(found) or None


def _users(rows: Sequence[Mapping[Any, Any]]) -> list[int]:
    return sorted({int(row[names.TARGET_USERS]) for row in rows})


def _reasons(rows: Sequence[Mapping[Any, Any]]) -> Iterator[str]:
    """Each kind of reason once, in the order of the steps; where it is not of all of them, with their users."""
    kinds: dict[str, list[tuple[Mapping[Any, Any], str]]] = {}
    for row in rows:
        for reason in str(row[names.REASONS]).split(REASON_SEPARATOR):
            kinds.setdefault(_NUMBER.sub("#", reason), []).append((row, reason))
    for found in kinds.values():
        of = [row for row, _ in found]
        where = "" if len(of) == len(rows) else f"at {counted(_users(of))} "
        yield where + merged([reason for _, reason in found])


def merged(texts: Sequence[str]) -> str:
    """Texts that differ in their numbers only as one, a range where they do: `1.1–2.3%`."""
    columns = iter(list(zip(*(_NUMBER.findall(text) for text in texts), strict=True)))
    return _NUMBER.sub(lambda _: _range(next(columns)), texts[0])


def _range(numbers: Sequence[str]) -> str:
    least, most = (pick(numbers, key=lambda text: float(text.replace(",", ""))) for pick in (min, max))
    return least if least == most else f"{least}–{most}"
