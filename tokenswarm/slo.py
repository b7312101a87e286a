"""Service level objectives: `ttft_p95=500ms`, what of the metrics' figures they limit, and what is wrong with one.

A latency or a rate of one user needs its statistic in the name; a figure of a whole step (`error_ratio`) has none.
"""

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import Any

from tokenswarm.metrics import METRICS, Better, Kind, Metric
from tokenswarm.usage_error import UsageError

LATENCY_STATISTICS = ("mean", "p50", "p95", "p99")
RATE_STATISTICS = ("p50", "p05", "p01")  # of one user's rate: its bad end is the low one
RATIO = "ratio"
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0}
_VALUE = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([^0-9.\s]\S*)?")
_NAME = re.compile(r"(.+?)_(mean|max|p[0-9]+)")
EXAMPLE = "ttft_p95=500ms"


@dataclasses.dataclass(frozen=True, slots=True)
class Limited:
    """What an objective limits: a metric, and which statistic of it; None for a figure of a whole step."""

    metric: Metric
    statistic: str | None


def statistics(metric: Metric) -> tuple[str, ...]:
    """The statistics of `metric` that an objective can limit; none where it is one figure a step."""
    if metric.kind is Kind.STEP:
        return ()
    return RATE_STATISTICS if metric.better is Better.HIGHER else LATENCY_STATISTICS


def names() -> list[str]:
    """All that an objective can be called."""
    return [
        name
        for metric in METRICS.values()
        if metric.better is not None
        for name in ([f"{metric.name}_{which}" for which in statistics(metric)] or [metric.name])
    ]


def limited(name: str) -> Limited:
    """What the objective called `name` limits. Raises UsageError where there is no such figure."""
    if name in names():
        if name in METRICS:
            return Limited(METRICS[name], None)
        metric, _, which = name.rpartition("_")
        return Limited(METRICS[metric], which)
    split = _NAME.fullmatch(name)
    metric_name = split[1] if split else name
    known = METRICS.get(metric_name)
    if known is None or known.better is None:
        latencies = [one.name for one in METRICS.values() if one.better is not None]
        raise UsageError(f"--slo: '{name}' names no metric that can be limited; there are {', '.join(latencies)}")
    allowed = statistics(known)
    if not allowed:
        raise UsageError(f"--slo: {known.name} is one figure a step, without a statistic; write {known.name}=…")
    choices = ", ".join(f"{known.name}_{which}" for which in allowed)
    raise UsageError(f"--slo: '{name}' is not measured; of {known.label} there are {choices}")


def parse(text: str) -> tuple[str, float]:
    """`ttft_p95=500ms` → ("ttft_p95", 0.5): name and limit in base units (s, a share, 1/s). Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip():
        raise UsageError(f"--slo must look like NAME=LIMIT ({EXAMPLE}), not '{text}'")
    name = name.strip().lower()
    return name, _limit(name, limited(name).metric, value.strip())


def _limit(name: str, metric: Metric, text: str) -> float:
    found = _VALUE.fullmatch(text)
    if found is None:
        raise UsageError(f"--slo {name}: '{text}' is no limit; write a number with its unit, like {_like(metric)}")
    number, unit = float(found[1]), (found[2] or "").lower()
    if metric.unit == "s":
        factor = _SECONDS.get(unit)
    elif metric.unit == RATIO:
        factor = {"": 1.0, "%": 0.01}.get(unit)
    else:
        factor = 1.0 if unit in ("", "/s", metric.unit) else None
    if factor is None:
        raise UsageError(f"--slo {name}: '{unit}' is no unit of {metric.label}; write it like {_like(metric)}")
    limit = float(f"{number * factor:.12g}")  # 7 % is 0.07, not 0.07000000000000001
    if metric.unit == RATIO and limit > 1:
        raise UsageError(f"--slo {name}: {text} is more than all requests; a share is 0 to 1, or 0% to 100%")
    if not math.isfinite(limit) or (limit == 0 and metric.unit == "s"):
        raise UsageError(f"--slo {name}: no answer takes {text}; write a limit like {_like(metric)}")
    return limit


def _like(metric: Metric) -> str:
    return {"s": "500ms or 0.5s", RATIO: "1% or 0.01"}.get(metric.unit, "20")


def parse_all(texts: Iterable[str] | str | None) -> dict[str, float]:
    """Name → limit in base units, of options that each hold one objective or several with commas between them.

    Locust's web form hands over one text where the command line hands over a list.
    """
    found: dict[str, float] = {}
    given = [texts] if isinstance(texts, str) else texts or []
    for text in (part for option in given for part in option.split(",") if part.strip()):
        name, limit = parse(text)
        if found.get(name, limit) != limit:
            raise UsageError(f"--slo: {name} is given twice, with different limits; which one holds?")
        found[name] = limit
    return found


def add_argument(parser: Any) -> None:
    """`--slo`, of the run and of the analysis alike."""
    parser.add_argument(
        "--slo",
        action="append",  # without a default: Locust's web form takes an empty list for one of whole numbers
        metavar="NAME=LIMIT",
        help=f"what answers must keep to: {EXAMPLE}, tpot_p95=50ms, error_ratio=0.01; may be repeated",
    )
