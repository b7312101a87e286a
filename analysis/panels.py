"""The panels of the curve: one metric against observed concurrency each.

A withheld value is no point; an invalid step's point is hollow; a band is the 95 % interval of its line.
"""

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


def latency(axes: "Axes", drawn: pd.DataFrame, metric: str) -> None:
    columns = {which: names.stat(metric, which) for which in LINES}
    scale = Scale.of_seconds(np.concatenate([drawn[name] for name in columns.values()]) if len(drawn) else [])
    axes.set_title(f"{METRICS[metric].label}, {scale.unit}")
    for which, color in LINES.items():
        _line(axes, drawn, metric, which, color, scale.factor)
    _value_axis(axes)


def user_rate(axes: "Axes", drawn: pd.DataFrame) -> None:
    axes.set_title(f"{METRICS[names.USER_TOKENS_PER_S].label} ({', '.join(SLOW_LINES)})")
    for which, color in SLOW_LINES.items():
        _line(axes, drawn, names.USER_TOKENS_PER_S, which, color, 1.0)
    _value_axis(axes)


def throughput(axes: "Axes", drawn: pd.DataFrame) -> None:
    axes.set_title(f"{METRICS[names.OUTPUT_TOKENS_PER_S].label}, whole system")
    if len(drawn):
        _points(axes, drawn, drawn[names.OUTPUT_TOKENS_PER_S], TOTAL, "o")
    _value_axis(axes)


def _line(axes: "Axes", drawn: pd.DataFrame, metric: str, which: str, color: str, factor: float) -> None:
    if not len(drawn):
        return
    low, high = (drawn[names.stat(metric, which, bound)] * factor for bound in (names.LOW, names.HIGH))
    load = drawn[names.OBSERVED_CONCURRENCY]
    axes.fill_between(load, low, high, color=color, alpha=0.16, linewidth=0)
    axes.vlines(load, low, high, color=color, alpha=0.45, linewidth=2.5)  # a lone point has no band
    _points(axes, drawn, drawn[names.stat(metric, which)] * factor, color, MARKERS[which])


def _points(axes: "Axes", drawn: pd.DataFrame, values: pd.Series, color: str, marker: str) -> None:
    load = drawn[names.OBSERVED_CONCURRENCY]
    invalid = drawn[names.VERDICT] == Verdict.INVALID
    axes.plot(load, values, color=color, linewidth=1.3, linestyle=(0, (1, 2)), zorder=2)  # as far as invalid steps go
    for run in _runs_of_valid(~invalid.to_numpy()):
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


def _runs_of_valid(valid: np.ndarray) -> list[slice]:
    """Stretches of neighbouring steps that are all to be believed: only these are joined by a solid line."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], valid.astype(int), [0]])))
    return [slice(int(first), int(last)) for first, last in zip(edges[::2], edges[1::2], strict=True)]


def _value_axis(axes: "Axes") -> None:
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
    is_log = load.max() / load.min() > LOG_RATIO / 2
    axes.set_xscale("log" if is_log else "linear")
    position = np.log(load) if is_log else load
    span = np.ptp(position) or 1.0
    room = 0.07 * span
    if is_log:
        axes.set_xlim(np.exp(position.min() - room), np.exp(position.max() + room))
    elif np.ptp(position):
        axes.set_xlim(position.min() - room, position.max() + room)
    else:
        axes.set_xlim(load[0] - 1, load[0] + 1)
    labels, last = [], -np.inf
    for at, value in zip(position, load, strict=True):
        fits = (at - last) / span > LABEL_ROOM
        labels.append(_load_label(value) if fits else "")
        last = at if fits else last
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(load, labels)


def _load_label(value: float) -> str:
    """20, 4.9, 1, 0.03: as exact as a tick needs to be."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if value >= 0.095 else f"{value:.1g}"
