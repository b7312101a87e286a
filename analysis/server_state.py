"""What the server said of itself (server.csv) → its load in each step's window, and over the time of the run."""

import dataclasses
import math

import numpy as np
import pandas as pd

from analysis.cells import MICRO

RUNNING, WAITING, KV_CACHE = "running", "waiting", "kv_cache_ratio"
PREEMPTIONS, GENERATED = "preemptions_total", "generation_tokens_total"
LATE_S = 2  # a target that speaks so much later than another counts as it did before
TOTALS = (PREEMPTIONS, "prompt_tokens_total", GENERATED)  # counted since the server's start


@dataclasses.dataclass(frozen=True, slots=True)
class ServerLoad:
    """Of all targets together, in one step's window; NaN: it does not say."""

    running: float = math.nan  # requests computed at once, mean
    waiting: float = math.nan  # requests in its queue, mean
    kv_cache: float = math.nan  # share of the KV cache in use, the most; of several targets, of the fullest
    preemptions: float = math.nan  # requests that lost their place in the KV cache
    generated_per_s: float = math.nan  # output tokens, by its own count

    @property
    def known(self) -> bool:
        return any(not math.isnan(value) for value in dataclasses.astuple(self))


def in_windows(server: pd.DataFrame, steps: pd.DataFrame) -> list[ServerLoad]:
    """One for each of `steps` (as of `steady.windows`). server: as of `load`."""
    return [_load(server, begin_us, end_us) for begin_us, end_us in steps[["begin_us", "end_us"]].to_numpy(dtype=float)]


def _load(server: pd.DataFrame, begin_us: float, end_us: float) -> ServerLoad:
    inside = server[(server.us >= begin_us) & (server.us < end_us)]
    if not len(inside):
        return ServerLoad()
    means = inside.groupby("target")[[RUNNING, WAITING]].mean().sum(min_count=1)
    passed_s = inside.groupby("target").us.agg(np.ptp) / MICRO
    rates = _added(inside, GENERATED) / passed_s.where(passed_s > 0)
    return ServerLoad(
        running=float(means[RUNNING]),
        waiting=float(means[WAITING]),
        kv_cache=float(inside[KV_CACHE].max()),
        preemptions=float(_added(inside, PREEMPTIONS).sum(min_count=1)),
        generated_per_s=float(rates.sum(min_count=1)),
    )


def _added(rows: pd.DataFrame, total: str) -> pd.Series:
    """By target, what was added to a count; a server that was started anew begins at 0."""
    steps = rows.groupby("target")[total].diff()
    since_start = rows[total].where(steps < 0, steps)
    return since_start.groupby(rows.target).sum(min_count=1)


def restarted(server: pd.DataFrame, steps: pd.DataFrame) -> bool:
    """Whether a count fell while the steps lasted: the server is not the one that it was."""
    if not len(server) or not len(steps):
        return False
    since = server[server.us >= steps.started_us.min()]
    return bool((since.groupby("target")[list(TOTALS)].diff() < 0).to_numpy().any())


def over_time(server: pd.DataFrame) -> pd.DataFrame:
    """One row for each second in which it spoke: us (its middle), and RUNNING, WAITING, KV_CACHE of all targets together."""
    second = (server.us // MICRO).astype("int64")
    each = server.groupby([second.rename("second"), "target"])[[RUNNING, WAITING, KV_CACHE]].mean().unstack("target")
    of = {name: pd.DataFrame(each[name]).ffill(limit=LATE_S) for name in (RUNNING, WAITING, KV_CACHE)}
    return pd.DataFrame(
        {
            "us": (each.index.to_numpy() + 0.5) * MICRO,
            **{name: of[name].sum(axis=1, min_count=1).to_numpy() for name in (RUNNING, WAITING)},
            KV_CACHE: of[KV_CACHE].max(axis=1).to_numpy(),
        }
    )
