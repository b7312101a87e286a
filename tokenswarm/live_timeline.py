"""One row of the timeline: what the page draws against time. Quantiles are those of the last few seconds."""

import time
from typing import TYPE_CHECKING, Any

from tokenswarm.live_tally import ITL, TTFT

if TYPE_CHECKING:
    from tokenswarm.running import Run

SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
DRAWN = (TTFT, ITL)
COLUMNS = (
    "at_s",
    "step",
    "users",
    "in_flight",
    "tokens_per_s",
    "requests_per_s",
    *(f"{metric}_{which}" for metric in DRAWN for which in SHARES),
    "ok",
    "errors",
    "running",
    "waiting",
    "kv_cache_ratio",
)


def row(run: "Run", users: int) -> list[Any]:
    """Values of COLUMNS now. `ok` and `errors` count from the start of the run."""
    recent, server = run.live.recent(), run.server
    return [
        round(time.time(), 3),
        max(run.steps, default=None),
        users,
        sum(run.in_flight.values()) if run.in_flight else None,
        recent.tokens_per_s,
        recent.requests_per_s,
        *(recent.quantile_s(metric, share) for metric in DRAWN for share in SHARES.values()),
        run.live.total.ok,
        run.live.total.errors,
        *(None if server is None else server.total(name) for name in ("running", "waiting", "kv_cache_ratio")),
    ]
