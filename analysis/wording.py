"""Numbers inside sentences: three digits, with their unit."""

import math
from collections.abc import Iterable

from analysis.slo import Objective
from tokenswarm.format import NOTHING, span
from tokenswarm.metrics import Better, Metric


def number(value: float) -> str:
    """Three significant digits, whole numbers in full, no exponents: 1,234, 42.5, 0.00123."""
    if not math.isfinite(value):
        return NOTHING
    if abs(value) >= 99.95 or value == round(value):
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{value:.{digits}f}"


def percent(share: float) -> str:
    return f"{number(share * 100)} %" if math.isfinite(share) else NOTHING


def figure(metric: Metric, value: float) -> str:
    """A value of `metric` with its unit."""
    if metric.unit == "s":
        return span(value)
    if metric.unit == "ratio":
        return percent(value)
    return f"{number(value)} {metric.unit}".replace(" 1/s", "/s")


def interval(metric: Metric, low: float, high: float) -> str:
    """` (95 % interval 1.10 s to 1.30 s)`, or nothing where there is none."""
    if math.isnan(low) or math.isnan(high):
        return ""
    return f" (95 % interval {figure(metric, low)} to {figure(metric, high)})"


def limit(objective: Objective) -> str:
    """`ttft_p95 ≤ 500 ms`."""
    sign = "≤" if objective.metric.better is Better.LOWER else "≥"
    return f"{objective.name} {sign} {figure(objective.metric, objective.limit)}"


def users(count: int) -> str:
    return things(count, "user")


def things(count: int, noun: str) -> str:
    """`1 request`, `1,200 requests`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(words: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def counted(counts: Iterable[int]) -> str:
    """`1 user`, `1, 5 and 20 users`."""
    found = list(counts)
    return f"{listed(f'{count:,}' for count in found)} user{'' if found == [1] else 's'}"
