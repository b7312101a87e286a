"""The live figures as a Prometheus page: at /metrics of the web UI, and at --prometheus-port of a headless run.

Gauges are of the last seconds, counters of the run so far; what is unknown has no sample. docs/ui.md lists the names.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gevent import pywsgi
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

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
)
from tokenswarm.live_health import Level
from tokenswarm.live_timeline import SHARES
from tokenswarm.metrics import METRICS
from tokenswarm.servers import COLUMNS as SERVER_COLUMNS
from tokenswarm.usage_error import UsageError

if TYPE_CHECKING:
    from tokenswarm.running import Run

PREFIX = "tokenswarm"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ADDRESS = "127.0.0.1"
RATES = (OUTPUT_RATE, REQUEST_RATE, USER_RATE, ERROR_RATIO, TRUNCATED_RATIO, CONCURRENCY)


class _Figures:
    """What `generate_latest` collects from."""

    def __init__(self, run: "Run") -> None:
        self._run = run

    def collect(self) -> Iterable[Metric]:
        yield from _of_run(self._run)
        if not self._run.is_over:  # gauges of a run that has ended would be taken for the present
            yield from _of_present(self._run)
            yield from _of_recent(self._run)
            yield from _of_health(self._run)
            yield from _of_server(self._run)


def page(run: "Run | None") -> bytes:
    """The whole page; empty before the first run."""
    registry = CollectorRegistry()
    if run is not None:
        registry.register(_Figures(run))
    return generate_latest(registry)


def _of_run(run: "Run") -> Iterator[Metric]:
    about = GaugeMetricFamily(
        f"{PREFIX}_run_info", "The run that is shown; always 1.", labels=["run", "model", "state"]
    )
    about.add_metric([run.folder.run_id, run.plan.model, run.state.value], 1)
    yield about
    requests = CounterMetricFamily(f"{PREFIX}_requests", "Requests that ended, by outcome.", labels=["outcome"])
    for outcome, count in sorted(run.live.total.outcomes.items()):
        requests.add_metric([outcome], count)
    yield requests
    errors = CounterMetricFamily(f"{PREFIX}_errors", "Requests that were not ok, by class.", labels=["error_class"])
    for error_class, count in sorted(run.live.total.error_classes.items()):
        errors.add_metric([error_class], count)
    yield errors
    tokens = sum(run.live.total.arrived.values())
    yield CounterMetricFamily(f"{PREFIX}_output_tokens", "Output tokens that arrived.", value=max(tokens, 0.0))


def _of_present(run: "Run") -> Iterator[Metric]:
    if run.progress is not None:
        for name, text, value in (
            ("step", "Number of the present step.", run.progress.step),
            ("users", "Users that are up.", run.progress.users),
            ("target_users", "Users of the present step.", run.progress.target_users),
        ):
            yield GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _of_recent(run: "Run") -> Iterator[Metric]:
    recent = of_recent(run)
    for metric in SHOWN:
        known = METRICS[metric]
        family = GaugeMetricFamily(f"{PREFIX}_{metric}_seconds", known.text, labels=["quantile"])
        for which, share in SHARES.items():
            value = recent["latencies"][metric][which]
            if value is not None:
                family.add_metric([f"{share:g}"], value)
        yield family
    for name in RATES:
        if recent[name] is not None:
            yield GaugeMetricFamily(f"{PREFIX}_{name}", METRICS[name].text, value=recent[name])


def _of_health(run: "Run") -> Iterator[Metric]:
    level, _ = health(run)
    if level is not None:
        text = "Whether the client's figures may be believed: 0 valid, 1 suspect, 2 invalid."
        yield GaugeMetricFamily(f"{PREFIX}_client_verdict", text, value=list(Level).index(level))
    yield GaugeMetricFamily(f"{PREFIX}_workers_lost", "Workers that were lost in this run.", value=len(run.lost))


def _of_server(run: "Run") -> Iterator[Metric]:
    for name in SERVER_COLUMNS[2:]:
        value = None if run.server is None else run.server.total(name)
        if value is not None:
            yield GaugeMetricFamily(f"{PREFIX}_server_{name}", "What the server says of itself.", value=value)


def serve(environment: Any, where: str) -> None:
    """Export at `where` ([ADDRESS:]PORT) until the process ends; nothing if it is empty. Raises UsageError."""
    if not where:
        return
    found = re.fullmatch(r"(?:(.+):)?([0-9]{1,5})", where)
    if found is None or int(found[2]) > 65535:
        raise UsageError(f"--prometheus-port: '{where}' is no port; write 9646, or 0.0.0.0:9646 for other machines too")
    server = pywsgi.WSGIServer(
        (found[1] or ADDRESS, int(found[2])), lambda *given: _answer(environment, *given), log=None
    )
    try:
        server.start()
    except OSError as error:
        raise UsageError(f"--prometheus-port: {where} cannot be listened at: {error.strerror}") from None


def _answer(environment: Any, request: dict[str, Any], start_response: Any) -> list[bytes]:
    if request["PATH_INFO"] not in ("/", "/metrics"):
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"/metrics is here\n"]
    start_response("200 OK", [("Content-Type", CONTENT_TYPE)])
    return [page(environment.tokenswarm_shown)]
