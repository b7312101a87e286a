"""Figures for people and machines from the live tallies: of the last seconds, of each step; objectives met or missed.

Plain data in base units, None for unknown. The page, the tab in Locust's UI and the Prometheus page all read these.
"""

from typing import TYPE_CHECKING, Any

from tokenswarm import slo
from tokenswarm.live_health import Level, findings, reads_told, verdict
from tokenswarm.live_tally import E2E, ITL, TOKENS, TPOT, TTFO, TTFT, Tally
from tokenswarm.live_timeline import SHARES
from tokenswarm.live_window import BUSY_S, COMPLETED
from tokenswarm.metrics import METRICS, Better
from tokenswarm.record import StepRecord

if TYPE_CHECKING:
    from tokenswarm.live import StepLive
    from tokenswarm.running import Run

SHOWN = (TTFT, TTFO, ITL, TPOT, E2E)
LEAST_N = {"p50": 6, "p95": 59, "p99": 299}  # below, the report withholds the figure
USER_RATE = METRICS["user_tokens_per_s"].name
OUTPUT_RATE = METRICS["output_tokens_per_s"].name
REQUEST_RATE = METRICS["requests_per_s"].name
ERROR_RATIO = METRICS["error_ratio"].name
TRUNCATED_RATIO = METRICS["truncated_ratio"].name
CONCURRENCY = METRICS["observed_concurrency"].name


def latencies(tally: Tally) -> dict[str, dict[str, Any]]:
    """Metric → its quantiles and how many samples they stand on."""
    return {
        metric: {which: tally.quantile_s(metric, share) for which, share in SHARES.items()}
        | {"n": int(tally.sketches[metric].count)}
        for metric in SHOWN
    }


def of_tally(tally: Tally) -> dict[str, Any]:
    tpot_s = tally.quantile_s(TPOT, 0.5)
    return {
        "latencies": latencies(tally),
        USER_RATE: 1 / tpot_s if tpot_s else None,
        ERROR_RATIO: tally.error_ratio,
        TRUNCATED_RATIO: tally.truncated_ratio,
        "ok": tally.ok,
        "errors": tally.errors,
        "cancelled": tally.cancelled,
        "error_classes": dict(sorted(tally.error_classes.items(), key=lambda item: -item[1])),
    }


def of_recent(run: "Run") -> dict[str, Any]:
    """The last seconds."""
    recent = run.live.recent()
    return of_tally(recent) | {
        OUTPUT_RATE: recent.tokens_per_s,
        REQUEST_RATE: recent.requests_per_s,
        CONCURRENCY: sum(run.in_flight.values()) if run.in_flight else None,
    }


def of_step(run: "Run", record: StepRecord) -> dict[str, Any]:
    """A step so far; where its window has not begun, without any figure."""
    lost = [worker for worker, step in run.lost.items() if step <= record.step]
    live = run.live.steps.get(record.step)
    length_s = window_s(run, live)
    shown: dict[str, Any] = {"step": record.step, "users": record.target_users, "ended": record.ended_at is not None}
    if live is None or not length_s:
        level, why = verdict(findings(Tally(), None, lost), has_health=False)
        return shown | {"window_s": None, "verdict": level, "why": why if lost else "its window has not begun"}
    level, why = verdict(findings(live.tally, record.target_users, lost), reads_told(live.tally))
    told_at = run.live.told_at
    figures = of_tally(live.tally) | {
        OUTPUT_RATE: live.per_s(TOKENS, told_at),
        REQUEST_RATE: live.per_s(COMPLETED, told_at),
        CONCURRENCY: live.per_s(BUSY_S, told_at),
    }
    return shown | figures | {
        "window_s": length_s,
        "verdict": level,
        "why": why,
        "slos": [objective(live.tally, figures, name, limit) for name, limit in run.options.slos.items()],
    }  # fmt: skip


def window_s(run: "Run", live: "StepLive | None") -> float | None:
    """How much of the step's window all processes have told of; None before it began."""
    if live is None or not run.live.told_at:
        return None
    return live.length_s(min(run.live.told_at.values()))


def objective(tally: Tally, figures: dict[str, Any], name: str, limit: float) -> dict[str, Any]:
    """An objective, its figure in this step, and whether that keeps to it (None: not known)."""
    value = figure(tally, figures, name)
    limited = slo.limited(name)
    is_lower = limited.metric.better == Better.LOWER
    met = None if value is None else (value <= limit if is_lower else value >= limit)
    if limited.metric.name in SHOWN and tally.sketches[limited.metric.name].count < LEAST_N.get(
        limited.statistic or "", 1
    ):
        met = None  # the report would withhold it
    return {"name": name, "value": value, "met": met}


def figure(tally: Tally, figures: dict[str, Any], name: str) -> float | None:
    """What the objective called `name` limits; None where it is not known while a run goes on."""
    limited = slo.limited(name)
    metric, which = limited.metric.name, limited.statistic
    if which is None:
        return figures.get(metric)
    if metric == USER_RATE:
        tpot_s = tally.quantile_s(TPOT, 1 - int(which[1:]) / 100)
        return 1 / tpot_s if tpot_s else None
    if metric not in SHOWN:
        return None
    return tally.mean_s(metric) if which == "mean" else tally.quantile_s(metric, SHARES[which])


def objectives(run: "Run") -> list[dict[str, Any]]:
    """What the run is asked to keep to."""
    found = []
    for name, limit in run.options.slos.items():
        limited = slo.limited(name)
        found.append(
            {
                "name": name,
                "metric": limited.metric.name,
                "statistic": limited.statistic,
                "limit": limit,
                "unit": limited.metric.unit,
            }
        )
    return found


def health(run: "Run") -> tuple[Level | None, str]:
    """The verdict on the client over the last seconds, in words."""
    recent = run.live.recent()
    # how many users there should be changes with the step, and these seconds may be of two: the steps' verdicts say it
    return verdict(findings(recent, None, list(run.lost)), reads_told(recent))
