"""Bytes of a CSV file → rows of cells, one file at a time and never the whole file at once.

A row is one physical line, as `tokenswarm.record` writes it; quoted line breaks are read too. A last row that was cut
(no "\\n" at its end, too few fields, an open quote) is dropped and counted: half a number is still a number.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from analysis.errors import RunError

BOM = b"\xef\xbb\xbf"
Cells = list[bytes]


class RowReader:
    """Iterates over (line number, cells); `columns` at once, `cut` (0 or 1) and `rewritten` when it has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cut = 0
        with path.open("rb") as file:
            first = file.readline()
        self.rewritten = first.startswith(BOM) or first.endswith(b"\r\n")  # a spreadsheet was here: said, not refused
        self.columns = self._header(first)

    def _header(self, first: bytes) -> list[str]:
        if not first.endswith(b"\n"):
            self.cut = int(bool(first))
            return []
        line = first.removeprefix(BOM)
        if b"," not in line and (b";" in line or b"\t" in line):
            found = "semicolons" if b";" in line else "tabs"
            raise RunError(
                f"{self.path.name}, line 1: expected columns separated by commas, found {found}; a spreadsheet seems "
                "to have rewritten the file: restore the original, or export it again as comma-separated UTF-8."
            )
        return [cell.decode(errors="replace") for cell in self._split(line, 1)]

    def _split(self, line: bytes, number: int) -> Cells:
        line = line.rstrip(b"\r\n")
        if b'"' not in line:
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

    def __iter__(self) -> Iterator[tuple[int, Cells]]:
        width = len(self.columns)
        if not width:
            return
        held: tuple[int, Cells] | None = (
            None  # one row behind: whether a short row is the LAST one decides what it means
        )
        for number, line in self._logical_lines():
            if held is not None:
                yield self._whole(held, width)
            held = number, self._split(line, number)
        if held is not None:
            if len(held[1]) < width:
                self.cut += 1
            else:
                yield self._whole(held, width)

    def _whole(self, row: tuple[int, Cells], width: int) -> tuple[int, Cells]:
        number, cells = row
        if len(cells) != width:
            raise RunError(
                f"{self.path.name}, line {number}: expected {width} cells as in the header, found {len(cells)}; "
                "mend or delete the line."
            )
        return row

    def _logical_lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines with an even number of quotes: joined where a quoted cell holds line breaks. No blank lines."""
        with self.path.open("rb") as file:
            file.readline()
            parts: list[bytes] = []
            start, is_open = 0, False
            for number, line in enumerate(file, start=2):
                if not line.endswith(b"\n"):
                    self.cut += 1  # with or without an open quote before it: one row
                    if is_open:
                        self._never_closed(parts, start)
                    return
                if b'"' in line:
                    is_open ^= line.count(b'"') % 2 == 1
                    start = start or number
                    parts.append(line)
                elif is_open:
                    parts.append(line)
                elif line.strip():
                    yield number, line
                if parts and not is_open:
                    yield start, b"".join(parts)
                    parts, start = [], 0
            if is_open:
                self._never_closed(parts, start)
                self.cut += 1

    def _never_closed(self, parts: list[bytes], start: int) -> None:
        """A quote left open in the last row is a cut row; if whole rows follow it, they must not vanish with it."""
        if any(part.count(b",") >= len(self.columns) - 1 for part in parts[1:]):
            raise RunError(
                f"{self.path.name}, line {start}: a quote is opened and never closed, and rows follow; "
                "mend or delete the line."
            )
