"""Bytes of a CSV file → blocks of rows, column by column, never the whole file at once.

A row is one physical line, as `tokenswarm.record` writes it; quoted line breaks are read too. A last row that was cut
(no "\\n" at its end, too few fields, an open quote) is dropped and counted: half a number is still a number.

Rows are split many at a time; each is looked at alone only where a quote, a blank line or a wrong number of cells asks
for it. (pandas' own parser is slower here, and would take a cut row for a whole one.)
"""

import csv
import dataclasses
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from analysis.errors import RunError

BOM = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
QUOTE = b'"'
NEWLINE = ord("\n")
SLICE_BYTES = 1_000_000  # whose line breaks are counted at once
Cells = list[bytes]


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """A place between two rows: the byte that the second one begins with, and its line."""

    at: int
    line: int


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Some rows: `lines[i]` is the line of row i, `cells[name][i]` its cell."""

    lines: Sequence[int]
    cells: dict[str, Sequence[bytes]]


class RowReader:
    """A file's rows in blocks; `columns` at once, `cut` (0 or more) and `rewritten` when it has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = 0
        with path.open("rb") as file:
            first = file.readline()
        self.rewritten = first.startswith(BOM) or first.endswith(b"\r\n")  # a spreadsheet was here: said, not refused
        self.columns = self._header(first)

    def _header(self, first: bytes) -> list[str]:
        line = first.removeprefix(BOM)
        if first.startswith(UTF_16):
            raise self._rewritten("UTF-8", "UTF-16")
        if b"\r" in line.rstrip(b"\r\n"):
            raise self._rewritten("lines ended by line feeds", "carriage returns alone")
        if b"," not in line and (b";" in line or b"\t" in line):
            raise self._rewritten("columns separated by commas", "semicolons" if b";" in line else "tabs")
        if not first.endswith(b"\n"):
            self.cut = int(bool(first))
            return []
        columns = [cell.decode(errors="replace") for cell in self._split(line.rstrip(b"\r\n"), 1)]
        twice = [name for index, name in enumerate(columns) if name and name in columns[:index]]
        if twice:
            raise RunError(f"{self.path.name}, line 1: the column {twice[0]} is there twice; delete one of them.")
        return columns

    def _rewritten(self, expected: str, found: str) -> RunError:
        return RunError(
            f"{self.path.name}, line 1: expected {expected}, found {found}; a spreadsheet seems "
            "to have rewritten the file: restore the original, or export it again as comma-separated UTF-8."
        )

    def _split(self, line: bytes, number: int) -> Cells:
        if QUOTE not in line:
            return line.split(b",")
        try:
            cells = next(csv.reader([line.decode()], strict=True))
        except UnicodeDecodeError as error:
            raise RunError(
                f"{self.path.name}, line {number}: expected UTF-8, found byte {error.start + 1} is not."
            ) from None
        except csv.Error as error:
            raise RunError(f"{self.path.name}, line {number}: no CSV row ({error}); mend or delete the line.") from None
        return [cell.encode() for cell in cells]

    def blocks(self, most_bytes: int, begin: Cut | None = None, end: Cut | None = None) -> Iterator[Block]:
        """The whole rows in order, those of about `most_bytes` of text at once; `begin`, `end`: of `cuts`."""
        if not self.columns:
            return
        held = b""
        with self.path.open("rb") as file:
            number = begin.line if begin else 2
            if begin:
                file.seek(begin.at)
            else:
                file.readline()
            text = file.read(_most(file, most_bytes, end))
            while text:
                ahead = file.read(_most(file, most_bytes, end))
                is_last = not ahead and end is None  # whether a short row is the LAST one decides what it means
                cut = text.rfind(b"\n")
                body = b"".join((held, memoryview(text)[: max(cut, 0)]))
                if cut < 0 or (ahead and QUOTE in body and body.count(QUOTE) % 2):  # a cell goes on behind this block
                    held += text
                else:
                    held = text[cut + 1 :]
                    breaks = _line_breaks(body)
                    yield from self._block(number, body, breaks, is_last, torn=bool(held))
                    number += breaks + 1
                text = ahead
        self.cut += bool(held)

    def cuts(self, wanted: Sequence[int]) -> list[Cut]:
        """Where the file may be read in parts: behind the line breaks that follow the `wanted` bytes.

        Nowhere if a quote is in it: a line break may be part of a cell.
        """
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            if not wanted or text.find(QUOTE) >= 0:
                return []
            last = Cut(text.find(b"\n") + 1, 2)
            found = []
            for at in sorted({text.find(b"\n", at) + 1 for at in wanted}):
                if last.at < at < len(text):
                    last = Cut(at, last.line + sum(map(_line_breaks, _slices(text, last.at, at))))
                    found.append(last)
        return found

    def _block(self, number: int, body: bytes, breaks: int, is_last: bool, torn: bool) -> Iterator[Block]:
        """The block of the lines of `body`, the first of which is line `number`; none where nothing is in them."""
        columns = self._split_at_once(body, breaks)
        if columns is not None:
            yield Block(range(number, number + len(columns[0])), dict(zip(self.columns, columns, strict=True)))
            return
        width = len(self.columns)
        rows = [(at, self._split(line, at)) for at, line in self._logical(number, body.split(b"\n"), torn)]
        if rows and is_last and len(rows[-1][1]) < width:
            self.cut += 1
            rows.pop()
        for at, row in rows:
            if len(row) != width:
                raise RunError(
                    f"{self.path.name}, line {at}: expected {width} cells as in the header, found {len(row)}; "
                    "mend or delete the line."
                )
        if rows:
            by_column = zip(*(row for _, row in rows), strict=True)
            yield Block([at for at, _ in rows], dict(zip(self.columns, by_column, strict=True)))

    def _split_at_once(self, body: bytes, breaks: int) -> list[Sequence[bytes]] | None:
        """Cells by column; None where a line has a quote, a carriage return or another number of cells.

        Split at commas alone, the last cell of a line and the first of the next stay together: every (width - 1)-th
        cell must hold one line break, and no other one any.
        """
        step = len(self.columns) - 1
        if step < 2 or QUOTE in body or b"\r" in body:
            return None
        cells = body.split(b",")
        seams = [cell.split(b"\n") for cell in cells[step:-1:step]]
        if (len(cells) - 1) % step or breaks != len(seams) or any(len(seam) != 2 for seam in seams):
            return None
        first = [cells[0], *(seam[1] for seam in seams)]
        last = [*(seam[0] for seam in seams), cells[-1]]
        return [first, *(cells[at::step] for at in range(1, step)), last]

    def _logical(self, number: int, lines: list[bytes], torn: bool) -> Iterator[tuple[int, bytes]]:
        """Lines with an even number of quotes: joined where a quoted cell holds line breaks. No blank lines."""
        parts: list[bytes] = []
        start, is_open = 0, False
        for at, line in enumerate(lines, start=number):
            if not is_open and QUOTE not in line:
                if line.strip():
                    yield at, line.rstrip(b"\r")
                continue
            start = start if parts else at
            is_open ^= line.count(QUOTE) % 2 == 1
            parts.append(line)
            if not is_open:
                yield start, b"\n".join(parts).rstrip(b"\r")
                parts = []
        if is_open:
            self._never_closed(parts, start)
            self.cut += not torn  # with a torn line after it: one row

    def _never_closed(self, parts: list[bytes], start: int) -> None:
        """A quote left open in the last row is a cut row; if whole rows follow it, they must not vanish with it."""
        if any(part.count(b",") >= len(self.columns) - 1 for part in parts[1:]):
            raise RunError(
                f"{self.path.name}, line {start}: a quote is opened and never closed, and rows follow; "
                "mend or delete the line."
            )


def _most(file: BinaryIO, most_bytes: int, end: Cut | None) -> int:
    return most_bytes if end is None else min(most_bytes, end.at - file.tell())


def _slices(text: mmap.mmap, begin: int, end: int) -> Iterator[bytes]:
    return (text[at : min(at + SLICE_BYTES, end)] for at in range(begin, end, SLICE_BYTES))


def _line_breaks(text: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == NEWLINE))  # five times as fast as bytes.count
