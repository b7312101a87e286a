"""The LLM tab in Locust's own page: a table of the last seconds beside the present step, by Locust's own means."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tokenswarm import format
from tokenswarm.live_figures import (
    CONCURRENCY,
    ERROR_RATIO,
    OUTPUT_RATE,
    REQUEST_RATE,
    SHOWN,
    TRUNCATED_RATIO,
    USER_RATE,
    health,
    of_recent,
    of_step,
)
from tokenswarm.live_timeline import SHARES
from tokenswarm.metrics import METRICS

if TYPE_CHECKING:
    from tokenswarm.running import Run

KEY = "llm"
PAGE = "./tokenswarm/"
TEMPLATE_ARGS = {
    "extended_tabs": [{"title": "LLM", "key": KEY}],
    "extended_tables": [
        {
            "key": KEY,
            "structure": [
                {"key": "figure", "title": "LLM"},  # Locust sorts by "name": without one, rows keep our order
                {"key": "recent", "title": "Last seconds"},
                {"key": "step", "title": "This step so far"},
            ],
        }
    ],
    "extended_csv_files": [{"href": PAGE, "title": "TokenSwarm: live charts, files of the run, report"}],
}
SERVER_LABELS = {"running": "Server: running", "waiting": "Server: waiting", "kv_cache_ratio": "Server: KV cache"}
# Locust's page has no place for a link in a tab of ours; it stands beside the page's root, where nothing replaces it
LINK = (
    f'<a href="{PAGE}" style="position:fixed;right:16px;bottom:12px;z-index:1300;padding:8px 16px;border-radius:20px;'
    "background:#15803d;color:#fff;font:500 14px system-ui,sans-serif;text-decoration:none;"
    'box-shadow:0 1px 4px rgba(0,0,0,.35)">LLM live charts</a>'
)


def table(run: "Run | None") -> list[dict[str, Any]]:
    """Locust's `extended_stats`."""
    return [{"key": KEY, "data": [] if run is None else list(_rows(run))}]


def _rows(run: "Run") -> Iterator[dict[str, str]]:
    recent = of_recent(run)
    last = run.steps.get(max(run.steps, default=0))
    step = {} if last is None else of_step(run, last)

    def row(name: str, of_recent: str, of_step: str) -> dict[str, str]:
        return {"figure": name, "recent": of_recent, "step": of_step}

    where = "–" if last is None else f"step {last.step}, {format.count(last.target_users)} users"
    yield row("Step", run.progress.phase.value if run.progress and not run.is_over else run.state.value, where)
    for metric in SHOWN:
        yield row(METRICS[metric].label, *(_quantiles(one, metric) for one in (recent, step)))
    for name in (OUTPUT_RATE, USER_RATE, REQUEST_RATE, CONCURRENCY):
        yield row(METRICS[name].label, *(_number(one.get(name)) for one in (recent, step)))
    for name in (ERROR_RATIO, TRUNCATED_RATIO):
        yield row(METRICS[name].label, *(format.ratio(one.get(name)) for one in (recent, step)))
    classes = [one.get("error_classes") or {} for one in (recent, step)]
    for name in sorted(classes[0].keys() | classes[1].keys()):
        yield row(f"Errors: {name}", *(format.count(one.get(name, 0)) for one in classes))
    level, why = health(run)
    yield row("Client", f"{level or 'unknown'}: {why}", f"{step.get('verdict') or 'unknown'}: {step.get('why', '')}")
    if run.server is not None:
        for name, label in SERVER_LABELS.items():
            value = run.server.total(name)
            if value is not None:
                yield row(label, format.ratio(value) if name == "kv_cache_ratio" else format.count(value), "")


def _quantiles(figures: dict[str, Any], metric: str) -> str:
    found = figures.get("latencies", {}).get(metric)
    if found is None or found["n"] == 0:
        return format.NOTHING
    return " · ".join(f"{which} {format.span(found[which])}" for which in SHARES)


def _number(value: float | None) -> str:
    if value is None:
        return format.NOTHING
    return f"{value:.1f}" if value < 100 else format.count(value)
