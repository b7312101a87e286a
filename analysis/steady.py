"""Steady windows: which part of each step counts, and which request belongs to it.

A window is [settled + warm-up, settled + step time), equally long for every step, shorter only where the step was cut.
Instants are whole epoch µs: exact, so that shifting a run in time changes no membership. In an open loop a request
belongs to where it was scheduled (`due_us`), and waits from then on: what the client sent late is not forgiven.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import MICRO
from analysis.chunks import Chunks
from analysis.errors import RunError
from tokenswarm import metrics
from tokenswarm.record import Caution, Outcome
from tokenswarm.runfolder import STEPS

FINISHED = "finished"  # column of the steps: False for one that the run broke off in
SHORT_TOLERANCE = 0.01  # of the planned length: a tick's worth of early ending is no cut


def windows(steps: pd.DataFrame, info: Mapping[str, Any]) -> pd.DataFrame:
    """One row a step: step, target_users, started_us, settled_us, until_us (next start), begin_us, end_us,
    planned_us, short, in_order, finished.

    `begin_us`, `end_us` are NaN for a step that never settled or ended within its warm-up: it has no window.
    Raises RunError for a step without users.
    steps: of the run, as of `unfinished.with_unfinished`.
    """
    scenario = info.get("scenario") or {}
    warmup_us = float(scenario.get("warmup_s") or 0) * MICRO
    step_us = float(scenario["step_time_s"]) * MICRO if scenario.get("step_time_s") else np.nan
    found = steps.sort_values("started_us", kind="stable").reset_index(drop=True)
    if (found.target_users < 1).any():
        step, users = found[found.target_users < 1][["step", "target_users"]].iloc[0]
        raise RunError(
            f"{STEPS}: step {step:.0f} has {users:.0f} target_users, and a step has 1 or more; mend the file."
        )
    last_us = float(info["ended_at"]) * MICRO if info.get("ended_at") else np.inf
    until_us = found.started_us.shift(-1).fillna(last_us)
    stopped_us = found.ended_us.fillna(until_us).replace(np.inf, np.nan)
    begin_us = (found.settled_us + warmup_us).round()
    planned_end_us = (found.settled_us + step_us).round().fillna(stopped_us)
    end_us = pd.concat([planned_end_us, stopped_us.fillna(planned_end_us)], axis=1).min(axis=1, skipna=False)
    in_order = (found.settled_us >= found.started_us) & ~(stopped_us < found.started_us)
    exists = (end_us > begin_us) & in_order
    planned_us = planned_end_us - begin_us
    return found[["step", "target_users", "started_us", "settled_us"]].assign(
        step=found.step.astype(int),
        target_users=found.target_users.astype(int),
        until_us=until_us,
        begin_us=begin_us.where(exists),
        end_us=end_us.where(exists),
        planned_us=planned_us,
        short=~exists | (end_us - begin_us < planned_us * (1 - SHORT_TOLERANCE)),
        in_order=in_order | found.settled_us.isna(),
        finished=found[FINISHED].astype(bool) if FINISHED in found else True,
    )


def place(requests: pd.DataFrame, chunks: Chunks, steps: pd.DataFrame) -> pd.DataFrame:
    """`requests` with: step_index (row of `steps`, -1 before the first), in_window, first_of_user, end_us, n_chunks.

    `end_us`: when it was no longer in flight; a request without a known end counts until its last chunk.
    """
    due_us = requests.due_us.to_numpy()
    index = np.searchsorted(steps.started_us.to_numpy(), due_us, side="right") - 1
    begin_us, end_us = (_at(steps[name], index) for name in ("begin_us", "end_us"))
    took_us = requests.ended_us.fillna(pd.Series(chunks.last_us(), index=requests.index)).fillna(0)
    return requests.assign(
        step_index=index,
        in_window=(due_us >= begin_us) & (due_us < end_us),
        first_of_user=~pd.DataFrame({"step": index, "worker": requests.worker, "user": requests.user}).duplicated(),
        end_us=(requests.sent_us + took_us).astype(np.int64),
        n_chunks=chunks.per_request,
    )


def during(requests: pd.DataFrame, begin_us: float, end_us: float) -> slice:
    """The neighbouring rows among which are all that were due, sent or in flight in [begin_us, end_us)."""
    first_us = np.minimum(requests.sent_us.to_numpy(), requests.due_us.to_numpy())
    found = np.flatnonzero((requests.end_us.to_numpy() >= begin_us) & (first_us < end_us))
    return slice(int(found[0]), int(found[-1]) + 1) if len(found) else slice(0, 0)


def _at(column: pd.Series, index: np.ndarray) -> np.ndarray:
    """`column` at row `index`; NaN for -1."""
    return np.append(column.to_numpy(dtype=float), np.nan)[index]


def derive(requests: pd.DataFrame, chunks: Chunks) -> pd.DataFrame:
    """`requests` with ttft_us, ttfo_us, e2e_us and tpot_us by the formulas of `tokenswarm.metrics`.

    Failed and empty requests have none. A cancelled request is one we stopped watching: the first chunk that it
    received was seen, its end was not. NaN is: does not exist, or was not seen.
    """
    ok = (requests.outcome == Outcome.OK).to_numpy()
    seen = ok | (requests.outcome == Outcome.CANCELLED).to_numpy()
    not_streamed, hidden = (has_caution(requests, word) for word in (Caution.NOT_STREAMED, Caution.HIDDEN_REASONING))
    first_us, last_us = chunks.first_us(), chunks.last_us()
    tokens = requests.output_tokens.to_numpy(dtype=float)
    slip_us = (requests.sent_us - requests.due_us).to_numpy(dtype=float)
    end_us = np.where(not_streamed, requests.ended_us.to_numpy(dtype=float), last_us)
    paced = ok & metrics.has_tpot(chunks.per_request, tokens, ~hidden)
    tpot_us = np.full(len(requests), np.nan)
    tpot_us[paced] = metrics.tpot_us(first_us[paced], last_us[paced], tokens[paced])
    return requests.assign(
        ttft_us=np.where(seen, first_us + slip_us, np.nan),
        ttfo_us=np.where(seen, requests.first_answer_us.to_numpy(dtype=float) + slip_us, np.nan),
        e2e_us=np.where(ok, end_us + slip_us, np.nan),
        tpot_us=tpot_us,
    )


def has_caution(requests: pd.DataFrame, caution: Caution) -> np.ndarray:
    """Which requests bear that word; few different combinations of words occur, so each is looked at once."""
    bearing = [words for words in requests.warnings.dropna().unique() if caution in words.split()]
    found: np.ndarray = requests.warnings.isin(bearing).to_numpy(dtype=bool)
    return found


def censor(requests: pd.DataFrame, begin_us: float, end_us: float) -> pd.DataFrame:
    """The requests sent in one window [begin_us, end_us), judged at its close; in an open loop, those due in it.

    Adds `censored` (still open when the window closed, or stopped by us before) and lower bounds in µs where it is:
    e2e_us ≥ close − due; tpot_us ≥ (close − first chunk) / (tokens it came to, or may come to − 1).
    """
    sent = requests[(requests.due_us >= begin_us) & (requests.due_us < end_us)]
    watched_us = np.minimum(end_us, sent.end_us) - sent.due_us
    live = sent.outcome.isin([Outcome.OK, Outcome.CANCELLED])
    censored = live & ((sent.outcome == Outcome.CANCELLED) | (sent.due_us + sent.e2e_us >= end_us))
    most_tokens = sent.output_tokens.fillna(sent.max_tokens)
    decoding_us = (watched_us - sent.ttft_us).clip(lower=0)
    return sent.assign(
        censored=censored,
        watched_us=watched_us,
        e2e_us=sent.e2e_us.where(~censored, watched_us),
        tpot_us=sent.tpot_us.where(~censored, (decoding_us / (most_tokens - 1)).where(most_tokens > 1)),
    )
