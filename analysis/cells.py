"""Cells (bytes) → columns of a frame, by the types that `tokenswarm.record` gives them. Unknown is NaN or None.

Errors name file, line and column.
"""

import dataclasses
import datetime
import types
import typing
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.errors import RunError
from tokenswarm.record import HealthRecord, Outcome, RequestRecord, Row, StepRecord
from tokenswarm.server_row import ServerRow

AnyRow = Row | ServerRow
MICRO = 1_000_000
MOST_EXACT = 2**53  # whole numbers up to here are exact in a float64
SOME, FEW = 64, 16  # of so many cells, so many different words: then each is made once
NEEDED: dict[type[AnyRow], tuple[str, ...]] = {  # columns without which a row says nothing
    RequestRecord: ("sent_at", "outcome"),
    StepRecord: ("step", "target_users", "started_at"),
    HealthRecord: ("at", "worker"),
    ServerRow: ("at", "target"),
}
OUTCOME = Outcome.__name__.lower()


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


def cell_types(kind: type[AnyRow]) -> dict[str, type]:
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


def frame(kind: type[AnyRow], columns: Mapping[str, Sequence[bytes]], path: Path, lines: Sequence[int]) -> pd.DataFrame:
    """The columns of `kind` from cells, all but the lists of numbers; none of NEEDED is unknown.

    Columns the file does not have are unknown throughout; columns that this version does not know are ignored.
    """
    data: dict[str, np.ndarray | pd.Series] = {}
    blank = [b""] * len(lines)
    for name, of in cell_types(kind).items():
        cells, place = columns.get(name, blank), Place(path, lines, name)
        if name in NEEDED[kind] and b"" in cells:
            raise place.error(cells.index(b""), "a value", b"")
        if of is float and name.endswith("at"):
            data[name] = _instants(cells, place)
        elif of in (int, float):
            data[name] = _numbers(cells, place, whole=of is int)
        else:
            data[name] = _texts(cells, place)
        if name == OUTCOME:
            _check_outcomes(cells, place)
    return pd.DataFrame(data)


def _check_outcomes(cells: Sequence[bytes], place: Place) -> None:
    known = [outcome.value for outcome in Outcome]
    strange = set(cells) - {word.encode() for word in known}
    if strange:
        index = next(index for index, cell in enumerate(cells) if cell in strange)
        raise place.error(index, "one of " + ", ".join(known), cells[index])


def _numbers(cells: Sequence[bytes], place: Place, whole: bool) -> np.ndarray:
    expected = "a whole number" if whole else "a number"
    if not any(cells):
        return np.full(len(cells), np.nan)
    filled = list(filter(None, cells))
    known = _at_once(filled, np.int64 if whole else np.float64)
    if known is None:
        try:
            known = np.array(list(map(float, filled)))
        except ValueError:
            raise _first_bad(cells, place, expected) from None
    values = known.astype(float)
    if len(known) < len(cells):
        values = np.full(len(cells), np.nan)
        values[np.fromiter(map(bool, cells), bool, len(cells))] = known
    bad = np.isinf(values) | (values != np.floor(values)) if whole else np.isinf(values)
    bad &= ~np.isnan(values)
    if len(known) != np.count_nonzero(~np.isnan(values)):  # a "nan" was written out
        bad |= np.isnan(values) & np.fromiter(map(bool, cells), bool, len(cells))
    if bad.any():
        index = int(np.flatnonzero(bad)[0])
        raise place.error(index, expected, cells[index])
    return values


def _at_once(filled: Sequence[bytes], of: type) -> np.ndarray | None:
    """The numbers of all cells in one call, five times as fast as one by one; None where that does not work out."""
    if filled.count(filled[0]) == len(filled):  # as what was asked for, and most of what went well
        values = parse(filled[0], of)
        return None if values is None or len(values) != 1 else values.repeat(len(filled))
    values = parse(b" ".join(filled), of)
    return None if values is None or len(values) != len(filled) else values


def parse(text: bytes, of: type) -> np.ndarray | None:
    """The numbers of `text`, separated by spaces; None where it holds anything else."""
    if not text:
        return np.empty(0, of)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # numpy's word for "this is no number"
        try:
            return np.fromstring(text, dtype=of, sep=" ")  # type: ignore[call-overload,no-any-return,unused-ignore]
        except (DeprecationWarning, ValueError):
            return None


def _first_bad(cells: Sequence[bytes], place: Place, expected: str) -> RunError:
    for index, cell in enumerate(cells):
        try:
            float(cell or b"0")
        except ValueError:
            return place.error(index, expected, cell)
    raise AssertionError("every cell reads as a number")


def _instants(cells: Sequence[bytes], place: Place) -> np.ndarray:
    """Epoch seconds; ISO 8601 only with Z or an offset, since a local time names no instant."""
    as_recorded = _six_decimals(cells)
    if as_recorded is not None:
        return as_recorded
    text = b" ".join(cells)
    if b":" in text:
        cells = [_epoch(cell, place, index) if b":" in cell else cell for index, cell in enumerate(cells)]
    if b"e" in text or b"E" in text:
        for index, cell in enumerate(cells):
            if b"e" in cell or b"E" in cell:
                raise place.error(index, "epoch seconds with 6 decimals (a spreadsheet has rounded them?)", cell)
    return _numbers(cells, place, whole=False)


def _six_decimals(cells: Sequence[bytes]) -> np.ndarray | None:
    """The numbers of cells that all look like 1761442200.123456; None where they do not.

    Whole µs are exact, and so is their quotient's rounding: the same float that the text stands for, in a twentieth of
    the time.
    """
    width = len(cells[0]) if cells else 0
    if not 9 <= width <= len(str(MOST_EXACT)) + 1 or set(map(len, cells)) != {width}:
        return None
    text = np.frombuffer(b"".join(cells), np.uint8).reshape(len(cells), width)
    digits = np.delete(text, -7, axis=1) - ord("0")
    if (text[:, -7] != ord(".")).any() or digits.max() > 9:
        return None
    us = digits @ 10 ** np.arange(width - 1)[::-1]
    return us / MICRO if us.max() <= MOST_EXACT else None


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
        distinct = list(dict.fromkeys(cells)) if len(set(cells[:: len(cells) // SOME + 1])) <= FEW else []
        if not 0 < len(distinct) <= FEW:
            return pd.Series(_words(cells), dtype="str")
        words = pd.array(_words(distinct), dtype="str")
    except UnicodeDecodeError:
        raise _first_undecodable(cells, place) from None
    index = {word: index for index, word in enumerate(distinct)}
    is_one = len(distinct) == 1
    codes = np.zeros(len(cells), np.intp) if is_one else np.fromiter(map(index.__getitem__, cells), np.intp)
    return pd.Series(words.take(codes))


def _words(cells: Sequence[bytes]) -> np.ndarray:
    words = b"\0".join(cells).decode().split("\0")
    if len(words) != len(cells):  # one of them holds a NUL
        words = [cell.decode() for cell in cells]
    return np.array(words if b"" not in cells else [word or np.nan for word in words], dtype=object)


def _first_undecodable(cells: Sequence[bytes], place: Place) -> RunError:
    for index, cell in enumerate(cells):
        try:
            cell.decode()
        except UnicodeDecodeError:
            return place.error(index, "UTF-8", cell)
    raise AssertionError("every cell is UTF-8")


def epoch_us(at: pd.Series) -> pd.Series:
    """Epoch seconds → whole epoch µs, as float64 (exact: 6 decimals of today's epoch fit, and so do their µs)."""
    return (at * MICRO).round()
