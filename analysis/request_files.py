"""Files of requests → their scalar columns and lists of arrivals; big ones by several processes, a share of bytes each."""

import contextlib
import dataclasses
import gc
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.alongside import Alongside, cores
from analysis.cells import Place
from analysis.chunks import Lists, parse_lists
from analysis.rows import Block, Cut, RowReader
from analysis.tables import BLOCK_BYTES, check_columns, file_notes, parts
from tokenswarm.record import RequestRecord

TIMES, TOKENS = "chunk_us", "chunk_tokens"
LEAST_BYTES = 16_000_000  # for a process: another one costs 0.1 s of CPU time, as much as reading a third of it
MOST_BYTES = 32_000_000  # of a share: another process holds no more, and what it found, before it is asked for it
MOST_PROCESSES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a file, from `begin` to `end`; None is the first one, or the last."""

    path: Path
    begin: Cut | None = None
    end: Cut | None = None


@dataclasses.dataclass(slots=True)
class Read:
    """Rows in the order of the files: frames of scalar columns, lists by block. `cut`: last rows that were cut."""

    parts: list[pd.DataFrame] = dataclasses.field(default_factory=list)
    times: list[Lists] = dataclasses.field(default_factory=list)
    tokens: list[Lists] = dataclasses.field(default_factory=list)
    cut: int = 0

    def append(self, more: "Read") -> None:
        self.parts += more.parts
        self.times += more.times
        self.tokens += more.tokens
        self.cut += more.cut


def read(files: Sequence[Path]) -> tuple[Read, list[str]]:
    """All rows of `files`, and what is to be said of the files. Raises RunError for the first row that is none."""
    readers = [RowReader(path) for path in files]
    sizes = [path.stat().st_size for path in files]
    processes = max(min(cores(), MOST_PROCESSES, sum(sizes) // LEAST_BYTES), 1)
    turns = -(-sum(sizes) // (processes * MOST_BYTES))
    pieces = shares(readers, sizes, processes * turns)
    found = Read()
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(Alongside(read_pieces)) for _ in range(processes - 1)]
        for first in range(0, len(pieces), processes):
            own, *theirs = pieces[first : first + processes]
            for one, its in zip(others, theirs, strict=True):
                one.begin(its)
            found.append(read_pieces(own))
            for one in others:
                found.append(one.result())
    return found, [note for reader in readers for note in file_notes(reader)]


def shares(readers: Sequence[RowReader], sizes: Sequence[int], count: int) -> list[list[Piece]]:
    """`count` shares (at least one) of about as many bytes each, together all of the files in their order."""
    found: list[list[Piece]] = [[] for _ in range(max(count, 1))]
    share_bytes, before = max(-(-sum(sizes) // len(found)), 1), 0
    for reader, size in zip(readers, sizes, strict=True):
        wanted = [at - before for at in range(share_bytes, sum(sizes), share_bytes) if before < at < before + size]
        ends = reader.cuts(wanted) if wanted else []
        for begin, end in zip([None, *ends], [*ends, None], strict=True):
            middle = before + ((begin.at if begin else 0) + (end.at if end else size)) // 2
            found[min(middle // share_bytes, len(found) - 1)].append(Piece(reader.path, begin, end))
        before += size
    return found


def read_pieces(pieces: Sequence[Piece]) -> Read:
    """The rows of `pieces`."""
    found = Read()
    with _no_garbage():
        for piece in pieces:
            reader = RowReader(piece.path)
            check_columns(reader, RequestRecord, [TIMES])
            blocks = reader.blocks(BLOCK_BYTES, piece.begin, piece.end)
            found.parts += parts(_with_lists(blocks, piece.path, found), RequestRecord, piece.path)
            found.cut += reader.cut
    return found


@contextlib.contextmanager
def _no_garbage() -> Iterator[None]:
    """Lists of a million cells make no cycles, and looking through them for some takes a twentieth of an analysis."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _with_lists(blocks: Iterable[Block], path: Path, found: Read) -> Iterator[Block]:
    """`blocks`, their lists of numbers parsed into `found` while they pass."""
    for block in blocks:
        at, told = _lists(block, path)
        found.times.append(at)
        found.tokens.append(told)
        yield block


def _lists(block: Block, path: Path) -> tuple[Lists, Lists]:
    at = parse_lists(block.cells[TIMES], Place(path, block.lines, TIMES))
    place = Place(path, block.lines, TOKENS)
    cells = block.cells.get(TOKENS, ())
    if not any(cells):
        return at, Lists(np.empty(0, np.int32), np.zeros(len(block.lines) + 1, np.int64))
    told = parse_lists(cells, place)
    wrong = np.flatnonzero((np.diff(told.start) != np.diff(at.start)) & (np.diff(told.start) > 0))
    if len(wrong):
        index = int(wrong[0])
        raise place.error(index, f"one number for each of the {len(at[index])} chunks", cells[index])
    return at, told
