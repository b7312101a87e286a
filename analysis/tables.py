"""Files of rows of one kind → a frame of their scalar columns."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from analysis.cells import NEEDED, AnyRow, cell_types, frame
from analysis.errors import RunError
from analysis.rows import Block, RowReader

BLOCK_BYTES = 256_000  # of text at once: enough to amortise numpy's calls, small enough for a processor's cache
PART_ROWS = 50_000  # whose cells are held until they become a part of the frame


def check_columns(reader: RowReader, kind: type[AnyRow], also: Sequence[str] = ()) -> None:
    """Raises RunError where a column that is needed is missing."""
    missing = [name for name in (*NEEDED[kind], *also) if name not in reader.columns]
    if missing and reader.columns:
        raise RunError(
            f"{reader.path.name}, line 1: the column {', '.join(missing)} is missing; the header should begin with "
            f"{','.join(list(cell_types(kind))[:4])},…"
        )


def file_notes(reader: RowReader) -> list[str]:
    return (
        [f"{reader.path.name} was rewritten by another program (byte-order mark or CRLF)"] if reader.rewritten else []
    )


def parts(blocks: Iterable[Block], kind: type[AnyRow], path: Path) -> Iterator[pd.DataFrame]:
    """The scalar columns of `blocks` in few frames: each frame costs as much as some thousand rows."""
    lines: list[int] = []
    cells: dict[str, list[bytes]] = {}
    wanted = cell_types(kind).keys()
    for block in blocks:
        lines += block.lines
        for name in block.cells.keys() & wanted:
            cells.setdefault(name, []).extend(block.cells[name])
        if len(lines) >= PART_ROWS:
            yield frame(kind, cells, path, lines)
            lines, cells = [], {}
    if lines:
        yield frame(kind, cells, path, lines)


def small_table(kind: type[AnyRow], files: Sequence[Path]) -> tuple[pd.DataFrame, int, list[str]]:
    """All rows of `files`, how many last rows were cut, and what is to be said of the files."""
    found: list[pd.DataFrame] = []
    cut, notes = 0, []
    for path in files:
        reader = RowReader(path)
        check_columns(reader, kind)
        found += parts(reader.blocks(BLOCK_BYTES), kind, path)
        cut += reader.cut
        notes += file_notes(reader)
    return joined(kind, found), cut, notes


def joined(kind: type[AnyRow], found: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One frame, with the columns of `kind` even where there is no row."""
    return pd.concat(found, ignore_index=True) if found else frame(kind, {}, Path(), [])
