"""Requests and chunks → what the report shows over time, over the prompt, over the answer. Draws nothing.

Times are seconds after the first step began. Big runs are thinned by rules that `thinned`, `answer_position` and
`bin_length_s` state; curves, percentiles and tables never are.
"""

import dataclasses

import numpy as np
import pandas as pd

from analysis import names
from analysis.cells import MICRO
from analysis.chunks import Chunks
from analysis.events import tokens_per_chunk
from analysis.stats import Ordered, smallest_n
from analysis.steady import censor
from tokenswarm.record import Outcome

MOST_POINTS = 3000  # dots of one scatter plot: more hide each other, and 2 MB must hold them all
MOST_BINS = 400  # of a timeline: more than the plot has pixels to tell apart
ECDF_POINTS = 160  # of one line
MOST_GAPS = 300_000  # of one step's answers, for the curve over the position
MOST_POSITIONS = 48
BLOCK_CHUNKS = 100_000  # bounds the working memory, to what a processor's cache holds
NICE_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
OF_REQUEST = {names.TTFT: "ttft_us", names.TPOT: "tpot_us", names.E2E: "e2e_us"}
OF_WINDOW = ["due_us", "end_us", "outcome", "output_tokens", "max_tokens", *OF_REQUEST.values()]  # what `censor` reads


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """`bins`: at_s (middle), output_tokens_per_s, in_flight, failed, stopped, and TTFT's p50 and p95 in s, NaN where
    too few requests were sent in the bin. `dots`: at_s, ttft_s, users; every `every`-th request."""

    bin_s: float
    bins: pd.DataFrame
    dots: pd.DataFrame
    every: int


def zero_us(requests: pd.DataFrame, steps: pd.DataFrame) -> float:
    """The instant that the timelines count from: the first step's start, or the first request where there is none."""
    known = steps.started_us if len(steps) else requests.sent_us
    return float(known.min()) if len(known) else 0.0


def bin_length_s(span_s: float) -> float:
    """The shortest round length that needs at most MOST_BINS bins."""
    return next((length for length in NICE_S if span_s / length <= MOST_BINS), float(np.ceil(span_s / MOST_BINS)))


def thinned(rows: pd.DataFrame, most: int = MOST_POINTS) -> tuple[pd.DataFrame, int]:
    """Every k-th row, with the smallest k that leaves at most `most`; and k."""
    every = max(1, -(-len(rows) // most))
    return rows.iloc[::every], every


def timeline(requests: pd.DataFrame, chunks: Chunks, steps: pd.DataFrame) -> Timeline:
    """requests, steps: as of `steady.derive` and `steady.windows`."""
    start_us = zero_us(requests, steps)
    span_s = (float(requests.end_us.max()) - start_us) / MICRO if len(requests) else 1.0
    bin_s = bin_length_s(span_s)
    count = max(1, int(span_s // bin_s))
    edges_us = start_us + np.arange(count + 1) * bin_s * MICRO
    bins = pd.DataFrame(
        {
            "at_s": (np.arange(count) + 0.5) * bin_s,
            "tokens_per_s": _tokens(requests, chunks, edges_us) / bin_s,
            "in_flight": _in_flight(requests, edges_us) / (bin_s * MICRO),
            **_ended(requests, edges_us),
            **_ttft(requests, edges_us),
        }
    )
    answered = requests[requests.ttft_us.notna() & (requests.sent_us >= start_us)]
    dots, every = thinned(
        pd.DataFrame(
            {
                "at_s": (answered.sent_us - start_us) / MICRO,
                "ttft_s": answered.ttft_us / MICRO,
                "step_index": answered.step_index,
            }
        )
    )
    return Timeline(bin_s, bins, dots, every)


def _tokens(requests: pd.DataFrame, chunks: Chunks, edges_us: np.ndarray) -> np.ndarray:
    """Output tokens that arrived in each bin; a chunk whose tokens nobody told counts as one."""
    count, width_us = len(edges_us) - 1, int(edges_us[1] - edges_us[0])
    found = np.zeros(count + 1)  # the last one is for what arrived in none
    even = np.nan_to_num(tokens_per_chunk(requests), nan=1.0)
    sent_us = requests.sent_us.to_numpy() - int(edges_us[0])
    first = 0
    while first < len(requests):
        last = int(np.searchsorted(chunks.start, chunks.start[first] + BLOCK_CHUNKS, side="right")) - 1
        last = min(max(last, first + 1), len(requests))
        span, rows = slice(chunks.start[first], chunks.start[last]), chunks.per_request[first:last]
        when = (np.repeat(sent_us[first:last], rows) + chunks.at_us[span]) // width_us
        when = np.minimum(when.view(np.uint64), np.uint64(count)).view(np.int64)  # before the first bin is huge
        weight = np.repeat(even[first:last], rows)
        if chunks.tokens is not None:
            told = chunks.tokens[span]
            weight = np.where(np.isnan(told), weight, told)
        found += np.bincount(when, weight, minlength=count + 1)
        first = last
    whole = requests[(requests.n_chunks == 0) & (requests.outcome == Outcome.OK)]
    return found[:count] + np.histogram(whole.end_us, edges_us, weights=whole.output_tokens.fillna(0))[0]


def _in_flight(requests: pd.DataFrame, edges_us: np.ndarray) -> np.ndarray:
    """Request-µs in flight in each bin: the integral of their number, exact."""

    def area(instants: pd.Series) -> np.ndarray:
        ordered = np.sort(instants.to_numpy(dtype=float) - edges_us[0])
        sums, at = np.concatenate([[0.0], np.cumsum(ordered)]), edges_us - edges_us[0]
        index = np.searchsorted(ordered, at, side="right")
        return np.asarray(at * index - sums[index])

    return np.diff(area(requests.sent_us) - area(requests.end_us))


def _ended(requests: pd.DataFrame, edges_us: np.ndarray) -> dict[str, np.ndarray]:
    """Requests that ended badly in each bin, and those that we stopped."""
    bad = requests.outcome.isin([Outcome.FAILED, Outcome.EMPTY])
    stopped = requests.outcome == Outcome.CANCELLED
    return {
        name: np.histogram(requests.end_us[mask], edges_us)[0].astype(float)
        for name, mask in (("failed", bad), ("stopped", stopped))
    }


def _ttft(requests: pd.DataFrame, edges_us: np.ndarray) -> dict[str, np.ndarray]:
    """p50 and p95 of the requests sent in each bin, withheld where their number allows no interval."""
    known = requests[requests.ttft_us.notna()]
    index = np.searchsorted(edges_us, known.sent_us.to_numpy(), side="right") - 1
    groups = (known.ttft_us / MICRO).groupby(index)
    sizes = groups.size()
    found = {}
    for which in ("p50", "p95"):
        quantile = names.QUANTILES[which]
        values = groups.quantile(quantile).where(sizes >= smallest_n(quantile))
        found[which] = values.reindex(range(len(edges_us) - 1)).to_numpy(dtype=float)
    return found


def ecdfs(requests: pd.DataFrame, steps: pd.DataFrame, metric: str) -> list[pd.DataFrame]:
    """One frame a step: value_s, share (0…1), at most ECDF_POINTS rows. Requests sent in the step's window; those
    still open at its close are censored (Kaplan-Meier), so the line ends where nothing was seen any more."""
    found = []
    requests = requests[OF_WINDOW]  # picking rows of all columns would take several times as long
    for step in steps.itertuples():
        has_window = np.isfinite(float(step.begin_us))  # type: ignore[arg-type]
        sent = censor(requests, step.begin_us, step.end_us) if has_window else requests.iloc[:0]  # type: ignore[arg-type]
        values = sent[OF_REQUEST[metric]].to_numpy(dtype=float)
        is_open = (
            sent.censored.to_numpy(dtype=bool) if len(sent) and metric != names.TTFT else np.zeros(len(sent), bool)
        )
        known = ~np.isnan(values)
        ordered = Ordered(values[known], is_open[known])
        n = ordered.n
        ranks = np.unique(np.linspace(1, n, min(n, ECDF_POINTS)).round()) if n else np.empty(0)
        at = np.array([ordered.at(rank) for rank in ranks]) / MICRO
        seen = np.isfinite(at)
        found.append(pd.DataFrame({"value_s": at[seen], "share": ranks[seen] / max(n, 1)}))
    return found


def answer_position(requests: pd.DataFrame, chunks: Chunks, steps: pd.DataFrame) -> list[pd.DataFrame]:
    """One frame a step: position (chunk of the answer), low_s, p50_s, high_s (quartiles) of the gap before it, n.

    Answers sent in the step's window; of more than MOST_GAPS gaps, those of every k-th answer. Where fewer than 20 (of
    few answers: a quarter, and never less than 6) are left, the line ends: they are not what was there before.
    """
    found = []
    for index in range(len(steps)):
        rows = np.flatnonzero((requests.step_index == index) & requests.in_window & (requests.outcome == Outcome.OK))
        total = int(chunks.per_request[rows].sum())
        found.append(_by_position(chunks, rows[:: max(1, -(-total // MOST_GAPS))]))
    return found


def _by_position(chunks: Chunks, rows: np.ndarray) -> pd.DataFrame:
    position, gaps_us = _gaps(chunks, rows)
    reached = np.bincount(position)
    enough = np.flatnonzero(reached >= min(20, max(6, len(rows) // 4)))
    longest = int(enough[-1]) if len(enough) and (reached >= 6).any() else 0
    if longest < 2:
        return pd.DataFrame({"position": [], "low_s": [], "p50_s": [], "high_s": [], "n": []}, dtype=float)
    edges = np.unique(np.linspace(1, longest + 1, min(longest, MOST_POSITIONS) + 1).round().astype(int))
    kept = position <= longest
    bins = (np.searchsorted(edges, np.arange(longest + 1), side="right") - 1)[position[kept]]
    middle = (edges[:-1] + edges[1:] - 1) / 2
    return _quartiles(bins, gaps_us[kept], len(middle)).assign(position=middle)


def _gaps(chunks: Chunks, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of all chunks of these requests but each one's first: its place in the answer, and the gap before it in µs."""
    counts = chunks.per_request[rows]
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    at_us = chunks.at_us[np.repeat(chunks.start[rows], counts) + place].astype(np.int64)
    later = place > 0
    return place[later], np.diff(at_us, prepend=0)[later]


def _quartiles(bins: np.ndarray, gaps_us: np.ndarray, count: int) -> pd.DataFrame:
    """low_s, p50_s, high_s and n of each of `count` bins, none of which is empty."""
    least, width = gaps_us.min(), np.ptp(gaps_us) + 1
    ordered = np.sort(bins * width + (gaps_us - least)) % width + least  # one sort for all bins
    n = np.bincount(bins, minlength=count)
    first = np.cumsum(n) - n
    found = {}
    for name, quantile in (("low_s", 0.25), ("p50_s", 0.5), ("high_s", 0.75)):
        exact = (n - 1) * quantile
        below = exact.astype(np.int64)
        low, high = (ordered[first + np.minimum(below + more, n - 1)] for more in (0, 1))
        found[name] = (low + (high - low) * (exact - below)) / MICRO
    return pd.DataFrame(found | {"n": n})


def prompts(requests: pd.DataFrame, steps: pd.DataFrame) -> tuple[list[pd.DataFrame], int]:
    """One frame a step: prompt_tokens, ttft_s of the answers sent in its window; every k-th over all steps; and k."""
    is_known = requests.in_window & requests.ttft_us.notna() & requests.prompt_tokens.notna()
    known = requests.loc[is_known, ["step_index", "prompt_tokens", "ttft_us"]]
    rows, every = thinned(known.assign(ttft_s=known.ttft_us / MICRO))
    return [rows.loc[rows.step_index == index, ["prompt_tokens", "ttft_s"]] for index in range(len(steps))], every
