"""Requests and chunks → one row a step: the figures of summary.csv. Nothing is drawn or judged here."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import latency, names
from analysis.cells import MICRO
from analysis.chunks import Chunks
from analysis.events import Events, inside
from analysis.slo import met, request_limits
from analysis.steady import censor, during
from analysis.wording import things
from tokenswarm.record import Outcome
from tokenswarm.runfolder import SUMMARY

LENGTH_FINISH = "length"  # finish_reason of an answer that ended at its token limit

READ = [
    "sent_us",
    "due_us",
    "end_us",
    "ended_us",
    "step_index",
    "first_of_user",
    "n_chunks",
    "outcome",
    "finish_reason",
    "warnings",
    "max_tokens",
    "prompt_tokens",
    "output_tokens",
    "reasoning_tokens",
    "ttft_us",
    "ttfo_us",
    "e2e_us",
    "tpot_us",
]


def summarise(
    requests: pd.DataFrame, chunks: Chunks, steps: pd.DataFrame, slos: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """One row a step, columns as in `names`; latencies in seconds, NaN where withheld (`withheld` says why).

    requests, steps: as of `steady.derive` and `steady.windows`.
    """
    limits = request_limits(slos)
    # Rows are picked dozens of times a step: only the columns that are read, and outcomes as numbers with a name.
    requests = requests[READ].astype({"outcome": pd.CategoricalDtype([outcome.value for outcome in Outcome])})
    zero_us = float(steps.started_us.min()) if len(steps) else 0.0
    rows = [_step(step, requests, chunks, limits, zero_us) for step in steps.itertuples()]
    return pd.DataFrame(rows)


def _step(
    step: Any, requests: pd.DataFrame, chunks: Chunks, limits: Mapping[str, float], zero_us: float
) -> dict[str, Any]:
    begin_us, end_us = step.begin_us, step.end_us
    row: dict[str, Any] = {names.STEP: step.step, names.TARGET_USERS: step.target_users}
    if np.isnan(begin_us):  # no window: an empty one counts nothing, and divides by nothing
        begin_us = end_us = step.started_us
    begin_us, end_us = int(begin_us), int(end_us)
    rows = during(requests, min(step.started_us, begin_us), max(step.until_us, end_us))
    requests, chunks = requests.iloc[rows], chunks.rows(rows)
    length_s = (end_us - begin_us) / MICRO or np.nan
    sent = censor(requests, begin_us, end_us)
    events = inside(requests, chunks, begin_us, end_us)
    row[names.OBSERVED_CONCURRENCY] = observed_concurrency(requests, begin_us, end_us)
    row[names.WINDOW_START_S] = (begin_us - zero_us) / MICRO
    row[names.WINDOW_LENGTH_S] = length_s
    row[names.WINDOW_SHORT] = bool(step.short)
    row |= _counts(sent)
    row |= _start_burst(requests[requests.step_index == step.Index])
    prompts, prompts_taken = _prompts(requests, chunks, begin_us, end_us)
    row |= _rates(requests, events, prompts, begin_us, end_us, limits)
    row |= _wall_rates(requests, step.started_us, step.until_us)
    if limits:
        row[names.SLO_ATTAINMENT] = met(requests.loc[sent.index], limits).mean() if len(sent) else np.nan
    active = requests[["outcome"]][(requests.end_us >= begin_us) & (requests.sent_us < end_us)]
    row |= latency.figures(latency.samples(sent, events, active))
    row[names.NOTES] = "; ".join(_notes(events, prompts, prompts_taken))
    return row


def observed_concurrency(requests: pd.DataFrame, begin_us: int, end_us: int) -> float:
    """Time average of the requests in flight inside the window; NaN without a window."""
    if end_us <= begin_us:
        return np.nan
    overlap_us = requests.end_us.clip(upper=end_us) - requests.sent_us.clip(lower=begin_us)
    return float(overlap_us.clip(lower=0).sum()) / (end_us - begin_us)


def _counts(sent: pd.DataFrame) -> dict[str, Any]:
    count = {outcome: int((sent.outcome == outcome).sum()) for outcome in Outcome}
    judged = len(sent) - count[Outcome.CANCELLED]
    truncated = int(((sent.outcome == Outcome.OK) & (sent.finish_reason == LENGTH_FINISH)).sum())
    return {
        names.SENT: len(sent),
        **{names.outcome_count(outcome): n for outcome, n in count.items()},
        names.CENSORED: int(sent.censored.sum()),
        names.START_BURST: int(sent.first_of_user.sum()),
        names.ERROR_RATIO: (judged - count[Outcome.OK]) / judged if judged else np.nan,
        names.TRUNCATED_RATIO: truncated / count[Outcome.OK] if count[Outcome.OK] else np.nan,
    }


def _start_burst(requests: pd.DataFrame) -> dict[str, Any]:
    """TTFT of the first request of each user in a step, wherever it was sent: all users begin at once, and wait."""
    ttft_us = requests[requests.first_of_user].ttft_us.dropna()
    return {
        names.START_BURST_TTFT_N: len(ttft_us),
        names.START_BURST_TTFT_S: ttft_us.mean() / MICRO,
        names.START_BURST_TTFT_MAX_S: ttft_us.max() / MICRO,
    }


def _wall_rates(requests: pd.DataFrame, started_us: float, until_us: float) -> dict[str, Any]:
    """Rates over the whole step, as tools without a steady window report them; NaN where its end is unknown."""
    length_s = (until_us - started_us) / MICRO if started_us < until_us < np.inf else np.nan
    completed = requests[
        (requests.outcome == Outcome.OK) & (requests.end_us >= started_us) & (requests.end_us < until_us)
    ]
    return {
        names.OUTPUT_TOKENS_PER_S_WALL: completed.output_tokens.sum(min_count=min(len(completed), 1)) / length_s,
        names.REQUESTS_PER_S_WALL: len(completed) / length_s,
    }


def _rates(
    requests: pd.DataFrame,
    events: Events,
    prompts: pd.Series,
    begin_us: int,
    end_us: int,
    limits: Mapping[str, float],
) -> dict[str, Any]:
    length_s = (end_us - begin_us) / MICRO or np.nan
    completed = requests[(requests.outcome == Outcome.OK) & (requests.end_us >= begin_us) & (requests.end_us < end_us)]
    rates: dict[str, Any] = {
        names.OUTPUT_TOKENS_PER_S: events.tokens / length_s,
        names.TOTAL_TOKENS_PER_S: np.nan,
        names.REQUESTS_PER_S: len(completed) / length_s,
    }
    if prompts.notna().any() or not len(prompts):
        rates[names.TOTAL_TOKENS_PER_S] = (events.tokens + prompts.sum()) / length_s
    if limits:
        rates[names.GOODPUT_PER_S] = int(met(completed, limits).sum()) / length_s
    known = completed[completed.output_tokens.notna() & (completed.n_chunks > 0)]
    rates[names.TOKENS_PER_CHUNK] = known.output_tokens.sum() / known.n_chunks.sum() if len(known) else np.nan
    return rates


def first_seen(requests: pd.DataFrame, chunks: Chunks, begin_us: int, end_us: int) -> pd.DataFrame:
    """The requests whose first token arrived inside the window."""
    first_us = requests.sent_us + chunks.first_us()
    whole = (requests.n_chunks == 0) & (requests.outcome == Outcome.OK)
    first_us = first_us.mask(whole, requests.end_us)
    return requests[(first_us >= begin_us) & (first_us < end_us)]


def _prompts(requests: pd.DataFrame, chunks: Chunks, begin_us: int, end_us: int) -> tuple[pd.Series, int]:
    """Prompt tokens of the requests whose first token arrived in the window, and for how many of them they are taken.

    A request that we stopped has no usage, but the server did read its prompt: the mean of the others stands for it.
    """
    seen = first_seen(requests, chunks, begin_us, end_us)
    prompts = seen.prompt_tokens
    taken = (seen.outcome == Outcome.CANCELLED) & prompts.isna() & bool(prompts.notna().any())
    return prompts.mask(taken, prompts.mean()), int(taken.sum())


def _notes(events: Events, prompts: pd.Series, taken: int) -> list[str]:
    found = []
    if events.chunks_as_tokens:
        share = events.chunks_as_tokens / events.chunks
        found.append(f"{share:.1%} of the chunks count as one token each: nobody told their tokens")
    if prompts.isna().any():
        found.append(f"prompt tokens unknown for {int(prompts.isna().sum())} of {things(len(prompts), 'request')}")
    if taken:
        found.append(f"prompts of {things(taken, 'request')} that we stopped are taken to be as long as the others'")
    return found


def write(summary: pd.DataFrame, folder: Path) -> Path:
    """Writes summary.csv, whole or not at all. Seconds and rates with 6 decimals, unknown as an empty cell."""
    path = folder / SUMMARY
    part = path.with_suffix(".csv.part")
    summary.to_csv(part, index=False, float_format="%.6f", lineterminator="\n")
    os.replace(part, path)
    return path
