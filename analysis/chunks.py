"""Arrival times of all chunks as flat arrays with one offset per request: millions of tokens, no Python object each."""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from analysis.cells import Place, parse
from analysis.digits import SPACE, whole_numbers

INT32_MAX = np.iinfo(np.int32).max
OTHER_SPACE = (b"\t", b"\n", b"\v", b"\f", b"\r")


@dataclasses.dataclass(frozen=True, slots=True)
class Chunks:
    """`at_us[start[i]:start[i + 1]]` are request i's chunk arrivals, µs after it was sent.

    `tokens`: tokens per chunk, same shape, NaN for requests whose server did not tell; None when none did.
    """

    at_us: np.ndarray  # (chunks,) int32, or int64 where a request outlasts 2^31 µs
    start: np.ndarray  # (requests + 1,) int64
    tokens: np.ndarray | None = None  # (chunks,) float32

    @property
    def per_request(self) -> np.ndarray:
        """Number of chunks of each request."""
        return np.diff(self.start)

    def of(self, request: int) -> np.ndarray:
        """Arrivals of one request, µs after it was sent."""
        return self.at_us[self.start[request] : self.start[request + 1]]

    def rows(self, which: slice) -> "Chunks":
        """Those of neighbouring requests, without a copy: `start` need not begin at 0."""
        return Chunks(self.at_us, self.start[which.start : which.stop + 1], self.tokens)

    def first_us(self) -> np.ndarray:
        """Each request's first arrival; NaN where there is none."""
        return self._edge(self.start[:-1])

    def last_us(self) -> np.ndarray:
        """Each request's last arrival; NaN where there is none."""
        return self._edge(self.start[1:] - 1)

    def _edge(self, index: np.ndarray) -> np.ndarray:
        found = np.full(len(index), np.nan)
        has = self.per_request > 0
        found[has] = self.at_us[index[has]]
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Lists:
    """A column of lists of whole numbers, flat: `values[start[i]:start[i + 1]]` is cell i."""

    values: np.ndarray
    start: np.ndarray

    def __getitem__(self, index: int) -> np.ndarray:
        return self.values[self.start[index] : self.start[index + 1]]


def parse_lists(cells: Sequence[bytes], place: Place) -> Lists:
    """Cells of whole numbers separated by single spaces. Raises RunError naming the first cell that is not."""
    filled = list(filter(None, cells))
    found = whole_numbers(b"\n".join(filled)) if filled else (np.empty(0, np.int32), np.empty(0, np.int64))
    if found is None or len(found[1]) != len(filled):  # a cell holds a line break, or a number more than fits there
        return _cell_by_cell(cells, place)
    values, counts = found
    start = np.zeros(len(cells) + 1, np.int64)
    start[1:][np.fromiter(map(bool, cells), bool, len(cells))] = counts
    return Lists(values, start.cumsum())


def _cell_by_cell(cells: Sequence[bytes], place: Place) -> Lists:
    parts = []
    for index, cell in enumerate(cells):
        part = _parse(cell)
        if part is None:
            raise place.error(index, "whole numbers separated by single spaces", cell)
        parts.append(part)
    values = np.concatenate(parts)
    if len(values) == 0 or (values.max() <= INT32_MAX and values.min() >= -INT32_MAX):
        values = values.astype(np.int32)
    return Lists(values, np.cumsum([0, *map(len, parts)]))


def _parse(text: bytes) -> np.ndarray | None:
    """The numbers of `text`, or None where it is not just that: numbers with one space between them."""
    if any(space in text for space in OTHER_SPACE):
        return None
    values = parse(text, np.int64)
    spaces = np.count_nonzero(np.frombuffer(text, np.uint8) == SPACE)
    return None if values is None or spaces != max(len(values) - 1, 0) else values


def assemble(times: Sequence[Lists], tokens: Sequence[Lists], order: np.ndarray) -> Chunks:
    """One `Chunks` from the parsed blocks, whose requests are taken in the given order."""
    counts = np.concatenate([np.diff(block.start) for block in times]) if times else np.empty(0, np.int64)
    start = np.concatenate([[0], np.cumsum(counts[order])]).astype(np.int64)
    views = _views(times)
    at_us = np.concatenate([views[index] for index in order.tolist()]) if views else np.empty(0, np.int32)
    if not any(len(block.values) for block in tokens):
        return Chunks(at_us, start)
    told = np.full(len(at_us), np.nan, np.float32)
    views = _views(tokens)
    for place, index in enumerate(order.tolist()):
        if len(views[index]):
            told[start[place] : start[place + 1]] = views[index]
    return Chunks(at_us, start, told)


def _views(blocks: Sequence[Lists]) -> list[np.ndarray]:
    """A view of each cell; millions of tokens are copied once, in their final order."""
    found: list[np.ndarray] = []
    for block in blocks:
        edges = block.start.tolist()
        found += [block.values[begin:end] for begin, end in itertools.pairwise(edges)]
    return found
