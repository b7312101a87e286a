"""Samples of one window → the latency columns of its row: estimates, numbers of samples, what was withheld and why."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.cells import MICRO
from analysis.events import Events
from analysis.stats import Estimate, Ordered, reasons
from tokenswarm.record import Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class Samples:
    """Samples of one metric in µs; `left_out`: requests that are neither among them nor still open."""

    ordered: Ordered
    left_out: int


def samples(sent: pd.DataFrame, events: Events, active: pd.DataFrame) -> dict[str, Samples]:
    """Metric → its samples.

    sent: requests sent in the window (`steady.censor`); events: what arrived in it; active: requests in flight in it.
    """
    cancelled = (sent.outcome == Outcome.CANCELLED).to_numpy(dtype=bool)
    censored = sent.censored.to_numpy(dtype=bool)
    watched_us = (sent.end_us - sent.due_us).to_numpy(dtype=float)
    ttft_us, ttfo_us, tpot_us, e2e_us = (
        sent[name].to_numpy(dtype=float) for name in ("ttft_us", "ttfo_us", "tpot_us", "e2e_us")
    )
    # A request that we stopped before it showed its first chunk was open for as long as we watched it.
    no_first, no_answer = cancelled & np.isnan(ttft_us), cancelled & np.isnan(ttfo_us)
    if np.isnan(ttfo_us).all():
        no_answer = np.zeros(len(sent), bool)  # no answer was ever seen: nothing to be open for
    per_token_us, token_pieces = events.per_token_us()
    of_chunks = int(active.outcome.isin([Outcome.FAILED, Outcome.EMPTY]).sum())
    return {
        names.TTFT: _of_requests(np.where(no_first, watched_us, ttft_us), no_first),
        names.TTFO: _of_requests(np.where(no_answer, watched_us, ttfo_us), no_answer),
        names.ITL: Samples(Ordered(events.gaps_us, pieces=events.pieces), of_chunks),
        names.ITL_PER_TOKEN: Samples(Ordered(per_token_us, pieces=token_pieces), of_chunks),
        names.TPOT: _of_requests(tpot_us, censored),
        names.E2E: _of_requests(e2e_us, censored),
    }


def _of_requests(values: np.ndarray, is_open: np.ndarray) -> Samples:
    known = ~np.isnan(values)
    return Samples(Ordered(values[known], is_open[known]), int((~known & ~is_open).sum()))


def figures(found: dict[str, Samples]) -> dict[str, Any]:
    """The latency columns of one step, and the rate that one user sees, in base units."""
    row: dict[str, Any] = {}
    withheld: list[tuple[str, Estimate]] = []
    for metric, one in found.items():
        row[names.count(metric)], row[names.left_out(metric)] = one.ordered.n, one.left_out
        percentiles = one.ordered.percentiles(list(names.QUANTILES.values()))
        estimates = {names.MEAN: one.ordered.mean(), **dict(zip(names.QUANTILES, percentiles, strict=True))}
        for which, estimate in estimates.items():
            row |= _columns(metric, which, estimate.scaled(1 / MICRO))
            if one.ordered.n or one.ordered.open:  # a metric that this server does not have is not withheld
                withheld.append((f"{metric}_{which}", estimate))
        row[names.stat(metric, names.MAX)] = one.ordered.largest / MICRO
        if metric == names.TPOT:  # the slowest users are those with the largest TPOT
            for slow, which in zip(names.SLOW_QUANTILES, names.QUANTILES, strict=True):
                row |= _columns(names.USER_TOKENS_PER_S, slow, estimates[which].scaled(1 / MICRO).inverted())
    row[names.WITHHELD] = "; ".join(reasons(withheld))
    return row


def _columns(metric: str, which: str, estimate: Estimate) -> dict[str, float]:
    return {
        names.stat(metric, which): estimate.value,
        names.stat(metric, which, names.LOW): estimate.low,
        names.stat(metric, which, names.HIGH): estimate.high,
    }
