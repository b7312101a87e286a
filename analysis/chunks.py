"""Arrival times of all chunks as flat arrays with one offset per request: millions of tokens, no Python object each."""

import dataclasses
import warnings
from collections.abc import Sequence

import numpy as np

from analysis.cells import Place

INT32_MAX = np.iinfo(np.int32).max


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
    counts = np.fromiter((cell.count(b" ") + 1 if cell else 0 for cell in cells), np.int64, len(cells))
    start = np.concatenate([[0], np.cumsum(counts)])
    values = _parse(b" ".join(filter(None, cells)))
    if values is None or len(values) != start[-1]:
        for index, cell in enumerate(cells):
            numbers = _parse(cell)
            if numbers is None or len(numbers) != counts[index]:
                raise place.error(index, "whole numbers separated by single spaces", cell)
    assert values is not None
    if len(values) == 0 or np.abs(values).max() <= INT32_MAX:
        values = values.astype(np.int32)
    return Lists(values, start)


def _parse(text: bytes) -> np.ndarray | None:
    if not text:
        return np.empty(0, np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # numpy's word for "this is no number"
        try:
            return np.fromstring(text, dtype=np.int64, sep=" ")  # type: ignore[call-overload,no-any-return,unused-ignore]
        except (DeprecationWarning, ValueError):
            return None


def assemble(times: Sequence[np.ndarray], tokens: Sequence[np.ndarray]) -> Chunks:
    """One `Chunks` from per-request arrays (views into the parsed blocks), in the given order."""
    start = np.concatenate([[0], np.cumsum([len(one) for one in times], dtype=np.int64)]).astype(np.int64)
    at_us = np.concatenate(times) if times else np.empty(0, np.int32)
    if not any(len(one) for one in tokens):
        return Chunks(at_us, start)
    told = np.full(len(at_us), np.nan, np.float32)
    for index, one in enumerate(tokens):
        if len(one):
            told[start[index] : start[index + 1]] = one
    return Chunks(at_us, start, told)
