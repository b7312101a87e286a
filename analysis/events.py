"""What arrived inside a window, token by token, whoever sent the request. Vectorised: here are the millions."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.chunks import Chunks
from analysis.dependence import MOST_GROUPS
from analysis.steady import has_caution
from tokenswarm.record import Caution, Outcome

BLOCK_CHUNKS = 100_000  # bounds the working memory, to what a processor's cache holds


@dataclasses.dataclass(frozen=True, slots=True)
class Events:
    """Arrivals inside one window. A gap belongs to where its later chunk falls."""

    gaps_us: np.ndarray  # of requests that did not fail
    pieces: np.ndarray  # which of MOST_GROUPS equal pieces of the window each gap ended in
    gap_tokens: np.ndarray | None  # tokens of the chunk after each gap, NaN where not told; None when told nowhere
    chunks: int
    tokens: float
    chunks_as_tokens: int  # of the chunks, counted as one token each because nobody told more

    def per_token_us(self) -> tuple[np.ndarray, np.ndarray]:
        """`itl_per_token`: each told gap shared out over its chunk's tokens, one sample per token; and their pieces."""
        if self.gap_tokens is None:
            return np.empty(0), np.empty(0, np.int16)
        told = self.gap_tokens > 0
        tokens = self.gap_tokens[told].astype(np.int64)
        return np.repeat(self.gaps_us[told] / tokens, tokens), np.repeat(self.pieces[told], tokens)


def tokens_per_chunk(requests: pd.DataFrame) -> np.ndarray:
    """Output tokens of each request spread evenly over its chunks; NaN where the number of tokens is unknown.

    Tokens that were counted but never streamed (hidden reasoning) did not arrive, and are not spread.
    """
    hidden = has_caution(requests, Caution.HIDDEN_REASONING)
    streamed = requests.output_tokens - requests.reasoning_tokens.where(hidden, 0).fillna(0)
    return (streamed.clip(lower=0) / requests.n_chunks.where(requests.n_chunks > 0)).to_numpy(dtype=float)


def inside(requests: pd.DataFrame, chunks: Chunks, begin_us: int, end_us: int) -> Events:
    """All arrivals in [begin_us, end_us). `requests` as of `steady.place`, sorted by sending time."""
    gaps: list[np.ndarray] = []
    pieces: list[np.ndarray] = []
    gap_tokens: list[np.ndarray] = []
    chunk_count, as_tokens = 0, 0
    token_count = whole_answers(requests, begin_us, end_us)
    sent_us = requests.sent_us.to_numpy() - begin_us
    live = requests.outcome.isin([Outcome.OK, Outcome.CANCELLED]).to_numpy()
    even = tokens_per_chunk(requests)
    length_us = end_us - begin_us
    for first, last in _row_blocks(requests, chunks, begin_us, end_us):
        span = slice(chunks.start[first], chunks.start[last])
        at_us, rows = chunks.at_us[span], chunks.per_request[first:last]
        bounds = chunks.start[first : last + 1] - chunks.start[first]
        filled = bounds[:-1][rows > 0]
        when_us = _narrow(sent_us[first:last], length_us, at_us).repeat(rows) + at_us
        is_in = (when_us >= 0) & (when_us < length_us)
        counts = np.zeros(last - first, np.int64)
        if len(filled):
            counts[rows > 0] = np.add.reduceat(is_in, filled, dtype=np.int64)
        told = None if chunks.tokens is None else chunks.tokens[span]
        told_rows = np.zeros(last - first, bool)
        if told is not None:
            told_rows[rows > 0] = ~np.isnan(told[filled])
            token_count += float(np.nansum(told[is_in], dtype=np.float64))
        weights = np.where(told_rows, 0.0, even[first:last])
        unknown = np.isnan(weights)
        token_count += float((counts * np.where(unknown, 1.0, weights)).sum())
        as_tokens += int(counts[unknown].sum())
        chunk_count += int(counts.sum())
        is_gap = is_in  # from here on: also neither first of its request nor of one that failed
        is_gap[filled] = False
        if not live[first:last].all():
            is_gap &= np.repeat(live[first:last], rows)
        gaps.append(np.diff(at_us, prepend=at_us[:1])[is_gap])
        pieces.append((when_us[is_gap] * np.float32(MOST_GROUPS / length_us)).astype(np.int16))
        if told is not None:
            gap_tokens.append(told[is_gap])
    all_gaps = np.concatenate(gaps) if gaps else np.empty(0, np.int32)
    all_pieces = np.concatenate(pieces).clip(max=MOST_GROUPS - 1) if pieces else np.empty(0, np.int16)
    all_tokens = np.concatenate(gap_tokens) if gap_tokens else None
    return Events(all_gaps, all_pieces, all_tokens, chunk_count, token_count, as_tokens)


def _narrow(sent_us: np.ndarray, length_us: int, at_us: np.ndarray) -> np.ndarray:
    """`sent_us` in the type of `at_us` where their sums fit into it: half the bytes to move for millions of chunks."""
    most = np.iinfo(at_us.dtype).max // 2
    fits = length_us < most and np.abs(sent_us).max(initial=0) < most and np.abs(at_us).max(initial=0) < most
    return sent_us.astype(at_us.dtype) if fits else sent_us


def whole_answers(requests: pd.DataFrame, begin_us: int, end_us: int) -> float:
    """Output tokens of answers that came as one body, without chunks: they arrived at their end."""
    ended = (requests.end_us >= begin_us) & (requests.end_us < end_us)
    whole = ended & (requests.n_chunks == 0) & (requests.outcome == Outcome.OK)
    return float(requests.output_tokens[whole].sum())


def _row_blocks(requests: pd.DataFrame, chunks: Chunks, begin_us: int, end_us: int) -> Iterator[tuple[int, int]]:
    """Ranges of requests that cover all with a chunk in the window, each of about BLOCK_CHUNKS chunks."""
    sent_us = requests.sent_us.to_numpy()
    last_us = sent_us + np.nan_to_num(chunks.last_us(), nan=-1)
    active = np.flatnonzero((last_us >= begin_us) & (sent_us < end_us))
    if not len(active) or end_us <= begin_us:  # no window: nothing is in it, not even what was open all through it
        return
    row, stop = int(active[0]), int(active[-1]) + 1
    while row < stop:
        upto = int(np.searchsorted(chunks.start, chunks.start[row] + BLOCK_CHUNKS, side="right")) - 1
        upto = min(max(upto, row + 1), stop)
        yield row, upto
        row = upto
