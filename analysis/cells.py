"""Cells (bytes) → columns of a frame, by the types that `tokenswarm.record` gives them. Unknown is NaN or None.

Errors name file, line and column.
"""

import dataclasses
import datetime
import types
import typing
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.errors import RunError
from tokenswarm.record import Outcome, Row

MICRO = 1_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a column's cells stand, for error messages: `lines[i]` is the line of cell i."""

    path: Path
    lines: Sequence[int]
    column: str

    def error(self, index: int, expected: str, cell: bytes) -> RunError:
        found = f"'{cell.decode(errors='replace')[:60]}'" if cell else "nothing"
        where = f"{self.path.name}, line {self.lines[index]}, column {self.column}"
        return RunError(f"{where}: expected {expected}, found {found}; mend the cell or delete the line.")


def cell_types(kind: type[Row]) -> dict[str, type]:
    """Column → type of its cells: float, int or str. Lists of numbers are not here, lists of words are one str."""
    found: dict[str, type] = {}
    for field in dataclasses.fields(kind):
        options = typing.get_args(field.type) if isinstance(field.type, types.UnionType) else (field.type,)
        (of,) = (option for option in options if option is not types.NoneType)
        if typing.get_origin(of) is not tuple:
            found[field.name] = of if of in (int, float) else str
        elif typing.get_args(of)[0] is not int:
            found[field.name] = str
    return found


def frame(kind: type[Row], columns: dict[str, Sequence[bytes]], path: Path, lines: Sequence[int]) -> pd.DataFrame:
    """The columns of `kind` from cells, all but the lists of numbers.

    Columns the file does not have are unknown throughout; columns that this version does not know are ignored.
    """
    data: dict[str, np.ndarray | pd.Series] = {}
    blank = [b""] * len(lines)
    for name, of in cell_types(kind).items():
        cells, place = columns.get(name, blank), Place(path, lines, name)
        if of is float and name.endswith("at"):
            data[name] = _instants(cells, place)
        elif of in (int, float):
            data[name] = _numbers(cells, place, whole=of is int)
        else:
            data[name] = _texts(cells, place)
    return pd.DataFrame(data)


def require(values: pd.DataFrame, names: Sequence[str], path: Path, lines: Sequence[int]) -> pd.DataFrame:
    """`values` where none of `names` is unknown. Raises RunError naming the first blank cell."""
    for name in names:
        gaps = np.flatnonzero(values[name].isna())
        if len(gaps):
            raise Place(path, lines, name).error(int(gaps[0]), "a value", b"")
    return values


def check_outcomes(values: pd.DataFrame, path: Path, lines: Sequence[int]) -> pd.DataFrame:
    """`values` where every outcome is one of the closed set."""
    known = [outcome.value for outcome in Outcome]
    strange = np.flatnonzero(~values.outcome.isin(known))
    if len(strange):
        index = int(strange[0])
        cell = str(values.outcome.iloc[index] or "").encode()
        raise Place(path, lines, Outcome.__name__.lower()).error(index, "one of " + ", ".join(known), cell)
    return values


def _numbers(cells: Sequence[bytes], place: Place, whole: bool) -> np.ndarray:
    expected = "a whole number" if whole else "a number"
    if not any(cells):
        return np.full(len(cells), np.nan)
    try:
        values = np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError:
        raise _first_bad(cells, place, expected) from None
    blank = np.isnan(values)
    bad = np.isinf(values) | (~blank & (values != np.floor(values))) if whole else np.isinf(values)
    if cells.count(b"") != np.count_nonzero(blank):  # a "nan" was written out
        bad |= blank & np.fromiter((cell != b"" for cell in cells), bool, len(cells))
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        raise place.error(index, expected, cells[index])
    return values


def _first_bad(cells: Sequence[bytes], place: Place, expected: str) -> RunError:
    for index, cell in enumerate(cells):
        try:
            float(cell or b"0")
        except ValueError:
            return place.error(index, expected, cell)
    raise AssertionError("every cell reads as a number")


def _instants(cells: Sequence[bytes], place: Place) -> np.ndarray:
    """Epoch seconds; ISO 8601 only with Z or an offset, since a local time names no instant."""
    text = b" ".join(cells)
    if b":" in text:
        cells = [_epoch(cell, place, index) if b":" in cell else cell for index, cell in enumerate(cells)]
    if b"e" in text or b"E" in text:
        for index, cell in enumerate(cells):
            if b"e" in cell or b"E" in cell:
                raise place.error(index, "epoch seconds with 6 decimals (a spreadsheet has rounded them?)", cell)
    return _numbers(cells, place, whole=False)


def _epoch(cell: bytes, place: Place, index: int) -> bytes:
    expected = "epoch seconds, or a date and time with Z or an offset"
    try:
        instant = datetime.datetime.fromisoformat(cell.decode())
    except ValueError:
        raise place.error(index, expected, cell) from None
    if instant.tzinfo is None:
        raise place.error(index, f"{expected} (a local time is ambiguous)", cell)
    return f"{instant.timestamp():.6f}".encode()


def _texts(cells: Sequence[bytes], place: Place) -> pd.Series:
    """A column of str even where all of it is unknown, or empty: whoever reads it need not ask."""
    try:
        return pd.Series([cell.decode() if cell else None for cell in cells], dtype="str")
    except UnicodeDecodeError:
        for index, cell in enumerate(cells):
            try:
                cell.decode()
            except UnicodeDecodeError:
                raise place.error(index, "UTF-8", cell) from None
        raise


def epoch_us(at: pd.Series) -> pd.Series:
    """Epoch seconds → whole epoch µs, as float64 (exact: 6 decimals of today's epoch fit, and so do their µs)."""
    return (at * MICRO).round()
