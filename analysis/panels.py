"""The panels of the curve: one metric against observed concurrency each.

A withheld value is no point; an invalid step's point is hollow; a band is the 95 % interval of its line.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis import names
from analysis.health import Verdict
from analysis.scale import Scale
from tokenswarm.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MUTED, GRID = "#5c6670", "#dfe3e8"
LINES = {"p50": "#0072B2", "p95": "#E69F00", "p99": "#D55E00"}  # Okabe-Ito: told apart by every eye
SLOW_LINES = dict(zip(names.SLOW_QUANTILES, LINES.values(), strict=True))
TOTAL = "#009E73"
MARKERS = {"p50": "o", "p95": "s", "p99": "^", "p05": "s", "p01": "^"}
LABEL_ROOM = 0.12  # of the axis, for one tick label
LOG_RATIO = 12.0  # beyond this spread a linear axis would crush the low end


def with_load(summary: pd.DataFrame) -> pd.DataFrame:
    """The steps that have a place on the axis of concurrency, in its order."""
    if not len(summary):
        return summary
    return summary[summary[names.OBSERVED_CONCURRENCY] > 0].sort_values(names.OBSERVED_CONCURRENCY, kind="stable")


def latency(axes: "Axes", drawn: pd.DataFrame, metric: str) -> None:
    columns = {which: names.stat(metric, which) for which in LINES}
    scale = Scale.of_seconds(np.concatenate([drawn[name] for name in columns.values()]) if len(drawn) else [])
    axes.set_title(f"{METRICS[metric].label}, {scale.unit}")
    for which, color in LINES.items():
        line(axes, drawn, metric, which, color, scale.factor)
    value_axis(axes)


def user_rate(axes: "Axes", drawn: pd.DataFrame) -> None:
    axes.set_title(f"{METRICS[names.USER_TOKENS_PER_S].label} ({', '.join(SLOW_LINES)})")
    for which, color in SLOW_LINES.items():
        line(axes, drawn, names.USER_TOKENS_PER_S, which, color, 1.0)
    value_axis(axes)


def throughput(axes: "Axes", drawn: pd.DataFrame) -> None:
    rate(axes, drawn, names.OUTPUT_TOKENS_PER_S, f"{METRICS[names.OUTPUT_TOKENS_PER_S].label}, whole system")


def rate(axes: "Axes", drawn: pd.DataFrame, metric: str, title: str, color: str = TOTAL, factor: float = 1) -> None:
    """A figure of the whole step; with its band where the summary has an interval."""
    axes.set_title(title)
    if len(drawn):
        bounds = [names.stat(metric, bound) for bound in (names.LOW, names.HIGH)]
        if all(name in drawn for name in bounds):
            low, high = (drawn[name] * factor for name in bounds)
            _band(axes, drawn[names.OBSERVED_CONCURRENCY], low, high, color)
        points(axes, drawn, drawn[metric] * factor, color, "o")
    value_axis(axes)


def frontier(axes: "Axes", drawn: pd.DataFrame) -> None:
    """Tokens/s of the system over those of one user, a point a step, named by its users."""
    axes.set_title("Throughput against interactivity")
    axes.set_xlabel("tokens/s that one user sees (p50)", loc="left")
    axes.set_ylabel("tokens/s of the system")
    x, y = drawn[names.stat(names.USER_TOKENS_PER_S, "p50")], drawn[names.OUTPUT_TOKENS_PER_S]
    invalid = drawn[names.VERDICT] == Verdict.INVALID
    axes.plot(x, y, color=TOTAL, linewidth=1.3, linestyle=(0, (1, 2)), zorder=2)
    for at, fill in ((~invalid, TOTAL), (invalid, "white")):
        axes.plot(x[at], y[at], "o", color=TOTAL, markerfacecolor=fill, markeredgewidth=1.6, markersize=8, zorder=4)
    for users, across, up in zip(drawn[names.TARGET_USERS], x, y, strict=True):
        if np.isfinite(across) and np.isfinite(up):
            axes.annotate(f"{users:,}", (across, up), xytext=(7, 5), textcoords="offset points")
    axes.set_xlim(0, (np.nanmax(x) if x.notna().any() else 1) * 1.15)
    axes.set_ylim(0, (np.nanmax(y) if y.notna().any() else 1) * 1.18)
    axes.grid(color=GRID, linewidth=0.9)
    axes.set_axisbelow(True)


def line(axes: "Axes", drawn: pd.DataFrame, metric: str, which: str, color: str, factor: float) -> None:
    if not len(drawn):
        return
    low, high = (drawn[names.stat(metric, which, bound)] * factor for bound in (names.LOW, names.HIGH))
    load = drawn[names.OBSERVED_CONCURRENCY]
    _band(axes, load, low, high, color)
    points(axes, drawn, drawn[names.stat(metric, which)] * factor, color, MARKERS[which])


def _band(axes: "Axes", load: pd.Series, low: pd.Series, high: pd.Series, color: str) -> None:
    axes.fill_between(load, low, high, color=color, alpha=0.16, linewidth=0)
    axes.vlines(load, low, high, color=color, alpha=0.45, linewidth=2.5)  # a lone point has no band


def points(axes: "Axes", drawn: pd.DataFrame, values: pd.Series, color: str, marker: str) -> None:
    load = drawn[names.OBSERVED_CONCURRENCY]
    invalid = drawn[names.VERDICT] == Verdict.INVALID
    axes.plot(load, values, color=color, linewidth=1.3, linestyle=(0, (1, 2)), zorder=2)  # as far as invalid steps go
    for run in runs_of_valid(~invalid.to_numpy()):
        axes.plot(load.iloc[run], values.iloc[run], color=color, linewidth=2, zorder=3)
    for at, fill in ((~invalid, color), (invalid, "white")):
        axes.plot(
            load[at],
            values[at],
            marker,
            color=color,
            markerfacecolor=fill,
            markeredgewidth=1.6,
            markersize=7,
            clip_on=False,
            zorder=4,
        )


def runs_of_valid(valid: np.ndarray) -> list[slice]:
    """Stretches of neighbouring steps that are all to be believed: only these are joined by a solid line."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], valid.astype(int), [0]])))
    return [slice(int(first), int(last)) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def value_axis(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    values = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.get_lines()] or [np.empty(0)])
    values = values[np.isfinite(values)]
    if not len(values):
        axes.text(
            0.5,
            0.5,
            "nothing to show:\nno value, or all withheld",
            ha="center",
            va="center",
            color=MUTED,
            transform=axes.transAxes,
        )
        axes.set_yticks([])
    elif values.min() > 0 and values.max() / values.min() > LOG_RATIO:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if values.max() / values.min() < 500 else (1,)))
        axes.margins(y=0.08)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, max(values.max(), axes.dataLim.y1) * 1.12 or 1)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.grid(axis="y", color=GRID, linewidth=0.9)
    axes.set_axisbelow(True)


def load_axis(axes: "Axes", drawn: pd.DataFrame) -> None:
    """A tick at each step's own concurrency; labels that would touch are left away, the ticks stay."""
    from matplotlib.ticker import NullLocator

    load = drawn[names.OBSERVED_CONCURRENCY].to_numpy() if len(drawn) else np.empty(0)
    if not len(load):
        axes.set_xticks([])
        return
    is_log, low, high, labels = load_labels(load)
    axes.set_xscale("log" if is_log else "linear")
    axes.set_xlim(low, high)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(load, labels)


def is_log_load(load: np.ndarray) -> bool:
    """Whether the axis of concurrency is logarithmic."""
    return bool(len(load) and load.max() / load.min() > LOG_RATIO / 2)


def load_labels(load: np.ndarray) -> tuple[bool, float, float, list[str]]:
    """Of the axis of concurrency: is it logarithmic, its ends, and a label for each of `load` (ascending)."""
    is_log = is_log_load(load)
    position = np.log(load) if is_log else load
    span = float(np.ptp(position))
    room = 0.07 * span or (0.5 if is_log else 1.0)
    low, high = float(position.min() - room), float(position.max() + room)
    labels, last = [], -np.inf
    for at, value in zip(position, load, strict=True):
        fits = (at - last) / (span or 1.0) > LABEL_ROOM
        labels.append(_load_label(value) if fits else "")
        last = at if fits else last
    return (is_log, math.exp(low), math.exp(high), labels) if is_log else (is_log, low, high, labels)


def _load_label(value: float) -> str:
    """20, 4.9, 1, 0.03: as exact as a tick needs to be."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if value >= 0.095 else f"{value:.1g}"
