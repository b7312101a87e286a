"""What of a run the gate needs, small enough to commit: per step the figures, and enough to know how sure they are.

Samples are kept per cell of the window (`resampling`), at most PER_CELL of each, chosen evenly by rank and weighted;
values are rounded to four digits. Figures are those of the summary, taken before anything is thinned out.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.answers import ERRORS
from analysis.cells import MICRO
from analysis.chunks import Chunks
from analysis.events import inside
from analysis.grade import Verdict
from analysis.health import judge
from analysis.pipeline import Analysis
from analysis.resampling import CELLS, Samples
from analysis.slo import met, request_limits
from analysis.steady import censor
from analysis.summary import LENGTH_FINISH, first_seen
from tokenswarm.metrics import METRICS
from tokenswarm.record import Outcome
from tokenswarm.slo import names as figure_names
from tokenswarm.slo import statistics

PER_CELL = 30
COLUMNS = {names.TTFT: "ttft_us", names.TTFO: "ttfo_us", names.TPOT: "tpot_us", names.E2E: "e2e_us"}

# Counts per cell: sums of them make the rates and shares.
OUTPUT_TOKENS, PROMPT_TOKENS, COMPLETED, MET = "output_tokens", "prompt_tokens", "completed", "completed_met"
SENT, SENT_MET, NOT_OK, JUDGED, OK, TRUNCATED = "sent", "sent_met", "not_ok", "judged", "ok", "truncated"


@dataclasses.dataclass(frozen=True, slots=True)
class StepKept:
    """One step of one run. `figures`: by the names that objectives have, in base units, NaN where withheld."""

    users: int  # target
    nth: int  # which of the steps with so many users, from 1
    window_s: float
    request_s: float  # how long a request usually takes; NaN where none ended
    verdict: str  # of `health`
    client_verdict: str  # the same, but for what only errors of the server brought about
    reasons: str
    withheld: str
    figures: dict[str, float]
    counts: dict[str, np.ndarray]  # name → (CELLS,)
    samples: dict[str, Samples]

    @property
    def key(self) -> tuple[int, int]:
        return self.users, self.nth

    @property
    def label(self) -> str:
        return f"{self.users} user{'s' if self.users > 1 else ''}" + (f" (no. {self.nth})" if self.nth > 1 else "")


def steps(found: Analysis) -> list[StepKept]:
    """Every step of an analysed run."""
    client = _client_verdicts(found)
    seen: dict[int, int] = {}
    kept = []
    for step, row, of_client in zip(found.steps.itertuples(), found.summary.to_dict("records"), client, strict=True):
        users = int(row[names.TARGET_USERS])
        seen[users] = seen.get(users, 0) + 1
        kept.append(_step(step, {str(k): v for k, v in row.items()}, of_client, seen[users], found))
    return kept


def _client_verdicts(found: Analysis) -> list[str]:
    """The verdicts once more without what the server's errors bring about: failures that return at once also leave
    users idle. Errors are the server's, so error ratios can be judged where only they make a step invalid.
    """
    summary = found.summary.drop(columns=[names.VERDICT, names.REASONS])
    failing = summary[names.ERROR_RATIO] > ERRORS[1]
    full = summary[names.TARGET_USERS].astype(float)
    summary[names.OBSERVED_CONCURRENCY] = summary[names.OBSERVED_CONCURRENCY].where(~failing, full)
    summary[names.ERROR_RATIO] = 0.0
    judged = judge(found.requests, found.run.chunks, found.steps, summary, found.run.health, found.run.info)
    return [str(verdict) for verdict in judged[names.VERDICT]]


def _step(step: Any, row: dict[str, Any], client: str, nth: int, found: Analysis) -> StepKept:
    begin_us, end_us = step.begin_us, step.end_us
    if np.isnan(begin_us):
        begin_us = end_us = step.started_us
    begin_us, end_us = int(begin_us), int(end_us)
    requests, chunks = _part(found.requests, found.run.chunks, begin_us, end_us)
    sent = censor(requests, begin_us, end_us)
    counts = _counts(requests, chunks, sent, begin_us, end_us, request_limits(found.run.info.get("slos")))
    samples = dict(_samples(sent, begin_us, end_us))
    samples[names.ITL] = _gaps(requests, chunks, begin_us, end_us, counts)
    return StepKept(
        users=int(row[names.TARGET_USERS]),
        nth=nth,
        window_s=(end_us - begin_us) / MICRO,
        request_s=float(sent.e2e_us.median()) / MICRO if len(sent) else math.nan,
        verdict=str(row[names.VERDICT]),
        client_verdict=client,
        reasons=str(row[names.REASONS]),
        withheld=str(row[names.WITHHELD]),
        figures=_figures(row),
        counts=counts,
        samples={name: thinned(one) for name, one in samples.items()},
    )


def _figures(row: dict[str, Any]) -> dict[str, float]:
    found = {}
    for name in figure_names():
        metric, _, which = name.rpartition("_")
        column = names.stat(metric, which) if metric in METRICS and which in statistics(METRICS[metric]) else name
        value = row.get(column)
        if value is not None:
            found[name] = float(value)
    return found


def _part(requests: pd.DataFrame, chunks: Chunks, begin_us: int, end_us: int) -> tuple[pd.DataFrame, Chunks]:
    """The requests that were in flight in the window, or between such ones, with their chunks."""
    active = np.flatnonzero(((requests.end_us >= begin_us) & (requests.sent_us < end_us)).to_numpy())
    first, last = (int(active[0]), int(active[-1]) + 1) if len(active) else (0, 0)
    span = slice(chunks.start[first], chunks.start[last])
    told = None if chunks.tokens is None else chunks.tokens[span]
    part = Chunks(chunks.at_us[span], chunks.start[first : last + 1] - chunks.start[first], told)
    return requests.iloc[first:last].reset_index(drop=True), part


def _cell(at_us: pd.Series, begin_us: int, end_us: int) -> np.ndarray:
    share = (at_us.to_numpy(dtype=float) - begin_us) / max(end_us - begin_us, 1)
    return np.clip((share * CELLS).astype(np.int64), 0, CELLS - 1)


def _counts(
    requests: pd.DataFrame, chunks: Chunks, sent: pd.DataFrame, begin_us: int, end_us: int, limits: Any
) -> dict[str, np.ndarray]:
    def per_cell(rows: pd.DataFrame, instant: str, weight: Any = None) -> np.ndarray:
        weights = None if weight is None else np.nan_to_num(rows[weight].to_numpy(dtype=float))
        return np.bincount(_cell(rows[instant], begin_us, end_us), weights, CELLS)[:CELLS]

    is_ok = sent.outcome == Outcome.OK
    judged = sent[sent.outcome != Outcome.CANCELLED]
    ended = requests[(requests.outcome == Outcome.OK) & (requests.end_us >= begin_us) & (requests.end_us < end_us)]
    counts = {
        SENT: per_cell(sent, "due_us"),
        JUDGED: per_cell(judged, "due_us"),
        NOT_OK: per_cell(judged[judged.outcome != Outcome.OK], "due_us"),
        OK: per_cell(sent[is_ok], "due_us"),
        TRUNCATED: per_cell(sent[is_ok & (sent.finish_reason == LENGTH_FINISH)], "due_us"),
        COMPLETED: per_cell(ended, "end_us"),
        PROMPT_TOKENS: per_cell(first_seen(requests, chunks, begin_us, end_us), "due_us", PROMPT_TOKENS),
    }
    if limits:
        counts[MET] = per_cell(ended[met(ended, limits)], "end_us")
        whole = requests.loc[sent.index]  # judged by what became of them, as the summary does
        counts[SENT_MET] = per_cell(sent[met(whole, limits)], "due_us")
    return counts


def _samples(sent: pd.DataFrame, begin_us: int, end_us: int) -> Iterator[tuple[str, Samples]]:
    """The rules of `latency.samples`: a request that was stopped or is still open is known to take at least so long."""
    cell = _cell(sent.due_us, begin_us, end_us)
    cancelled = (sent.outcome == Outcome.CANCELLED).to_numpy(dtype=bool)
    for metric, column in COLUMNS.items():
        value = sent[column].to_numpy(dtype=float)
        if metric in (names.TTFT, names.TTFO):
            is_open = cancelled & np.isnan(value)
            value = np.where(is_open, (sent.end_us - sent.sent_us).to_numpy(dtype=float), value)
            if metric == names.TTFO and np.isnan(sent[column]).all():
                continue  # no answer was ever seen: nothing to be open for
        else:
            is_open = sent.censored.to_numpy(dtype=bool)
        known = ~np.isnan(value)
        yield metric, Samples(cell[known], value[known], is_open[known])


def _gaps(requests: pd.DataFrame, chunks: Chunks, begin_us: int, end_us: int, counts: dict[str, np.ndarray]) -> Samples:
    """ITL per cell; on the way, the tokens that arrived in each, into `counts`."""
    edges = np.linspace(begin_us, end_us, CELLS + 1).round().astype(np.int64)
    gaps, tokens = [], np.zeros(CELLS)
    for cell in range(CELLS):
        events = inside(requests, chunks, int(edges[cell]), int(edges[cell + 1]))
        tokens[cell] = events.tokens
        gaps.append(np.asarray(events.gaps_us, dtype=float))
    counts[OUTPUT_TOKENS] = tokens
    cell_of = np.repeat(np.arange(CELLS), [len(one) for one in gaps])
    return Samples(cell_of, np.concatenate(gaps), np.zeros(len(cell_of), bool))


def thinned(samples: Samples) -> Samples:
    """At most PER_CELL samples a cell, evenly by rank, each with the weight of those it stands for."""
    if len(samples) == 0 or np.bincount(samples.cell).max() <= PER_CELL:
        return samples
    order = np.lexsort((samples.value, samples.is_open, samples.cell))
    cell, value, is_open = samples.cell[order], samples.value[order], samples.is_open[order]
    chosen, weight = [], []
    for group in np.split(np.arange(len(cell)), np.flatnonzero(np.diff(cell)) + 1):
        n = min(len(group), PER_CELL)
        chosen.append(group[((np.arange(n) + 0.5) * len(group) / n).astype(int)])
        weight.append(np.full(n, len(group) / n))
    index = np.concatenate(chosen)
    return Samples(cell[index], value[index], is_open[index], np.concatenate(weight))


def valid(verdict: str) -> bool:
    return verdict != Verdict.INVALID
