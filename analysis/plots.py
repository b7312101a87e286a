"""curve.png and curve.svg: latency and throughput against observed concurrency, one panel each, from the summary alone.

A withheld value is no point; an invalid step's point is hollow; a band is the 95 % interval of its line.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.health import Verdict
from analysis.scale import Scale
from tokenswarm.metrics import METRICS
from tokenswarm.runfolder import CURVE_PNG, CURVE_SVG

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILES = (CURVE_PNG, CURVE_SVG)
INK, MUTED, GRID = "#1b1f24", "#5c6670", "#dfe3e8"
LINES = {"p50": "#0072B2", "p95": "#E69F00", "p99": "#D55E00"}  # Okabe-Ito: told apart by every eye
SLOW_LINES = {"p50": "#0072B2", "p05": "#E69F00", "p01": "#D55E00"}
TOTAL = "#009E73"
SHOWN_STEPS = 12  # of the footnote's list
LABEL_ROOM = 0.12  # of the axis, for one tick label
LOG_RATIO = 12.0  # beyond this spread a linear axis would crush the low end
MARKERS = {"p50": "o", "p95": "s", "p99": "^", "p05": "s", "p01": "^"}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 12,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 13,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "svg.hashsalt": "tokenswarm",  # the same run draws the same bytes
    "svg.fonttype": "none",
}


def write(summary: pd.DataFrame, info: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draws the curve into `folder`, each file whole or not at all."""
    import matplotlib  # late: slow to load

    matplotlib.use("Agg")
    with matplotlib.rc_context(STYLE):
        figure = draw(summary, info)
        paths = [folder / name for name in FILES]
        for path in paths:
            part = path.with_name(f"{path.name}.part")
            metadata = {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(part, format=path.suffix[1:], dpi=150, facecolor="white", metadata=metadata)
            os.replace(part, path)
    return paths


def draw(summary: pd.DataFrame, info: Mapping[str, Any]) -> "Figure":
    """A 16:9 sheet of six panels that share the axis of observed concurrency."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.33, 7.5))
    panels = figure.subplots(2, 3).ravel()
    figure.subplots_adjust(left=0.06, right=0.985, top=0.795, bottom=0.175, wspace=0.2, hspace=0.38)
    figure.text(0.06, 0.95, _title(info), fontsize=19, fontweight="bold", va="center")
    figure.text(0.06, 0.9, _subtitle(info), fontsize=12, color=MUTED, va="center")
    drawn = _with_load(summary)
    for axes, metric in zip(panels, (names.TTFT, names.ITL, names.TPOT, names.E2E), strict=False):
        _latency(axes, drawn, metric)
    _throughput(panels[4], drawn)
    _user_rate(panels[5], drawn)
    for axes in panels:
        _load_axis(axes, drawn)
    panels[3].set_xlabel("observed concurrency (requests in flight, time average)", loc="left")
    _legend(figure, drawn)
    figure.text(0.06, 0.02, _footnote(summary), fontsize=9.5, color=MUTED, va="bottom", linespacing=1.35)
    return figure


def _with_load(summary: pd.DataFrame) -> pd.DataFrame:
    """The steps that have a place on the axis, in its order."""
    if not len(summary):
        return summary
    return summary[summary[names.OBSERVED_CONCURRENCY] > 0].sort_values(names.OBSERVED_CONCURRENCY, kind="stable")


def _latency(axes: "Axes", drawn: pd.DataFrame, metric: str) -> None:
    columns = {which: names.stat(metric, which) for which in LINES}
    scale = Scale.of_seconds(np.concatenate([drawn[name] for name in columns.values()]) if len(drawn) else [])
    axes.set_title(f"{METRICS[metric].label}, {scale.unit}")
    for which, color in LINES.items():
        _line(axes, drawn, metric, which, color, scale.factor)
    _value_axis(axes)


def _user_rate(axes: "Axes", drawn: pd.DataFrame) -> None:
    axes.set_title(f"{METRICS[names.USER_TOKENS_PER_S].label} ({', '.join(SLOW_LINES)})")
    for which, color in SLOW_LINES.items():
        _line(axes, drawn, names.USER_TOKENS_PER_S, which, color, 1.0)
    _value_axis(axes)


def _throughput(axes: "Axes", drawn: pd.DataFrame) -> None:
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


def _load_axis(axes: "Axes", drawn: pd.DataFrame) -> None:
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


def _legend(figure: "Figure", drawn: pd.DataFrame) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Any] = [
        Line2D([], [], color=color, marker=MARKERS[which], linewidth=2, label=which) for which, color in LINES.items()
    ]
    entries.append(Patch(color=MUTED, alpha=0.25, linewidth=0, label="95 % interval"))
    if len(drawn) and (drawn[names.VERDICT] == Verdict.INVALID).any():
        entries.append(
            Line2D(
                [],
                [],
                color=MUTED,
                marker="o",
                markerfacecolor="white",
                linestyle="",
                label="invalid step: not to be relied on",
            )
        )
    figure.legend(
        handles=entries,
        loc="center left",
        bbox_to_anchor=(0.06, 0.858),
        ncols=len(entries),
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.8,
    )


def _title(info: Mapping[str, Any]) -> str:
    return f"{_cut(info.get('model') or 'unknown model', 50)}: latency against concurrency"


def _subtitle(info: Mapping[str, Any]) -> str:
    """Target, workload and run: what a picture torn from its report must still say."""
    conditions = info.get("conditions") or {}
    workload = [
        f"{conditions[name]} {text}"
        for name, text in (("prompt_tokens", "prompt tokens"), ("max_tokens", "output tokens at most"))
        if conditions.get(name) is not None
    ]
    scenario = (info.get("scenario") or {}).get("name")
    parts = [
        _cut(info.get("target") or "unknown target", 60),
        ", ".join(workload),
        f"{scenario}, closed loop" if scenario else "",
        f"run {_cut(info['run_id'], 40)}" if info.get("run_id") else "",
    ]
    return "  ·  ".join(part for part in parts if part)


def _cut(text: object, limit: int) -> str:
    """Short enough for a title; dollar signs are no formulas."""
    whole = str(text).replace("$", r"\$")
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"


def _footnote(summary: pd.DataFrame) -> str:
    """Window and number of requests of each step, and how to read what is drawn."""
    if not len(summary):
        return "No step was recorded."
    lengths_s = summary[names.WINDOW_LENGTH_S]
    usual_s = lengths_s.max()
    window = f"{usual_s:.0f} s after the warm-up" if np.isfinite(usual_s) else "none"
    rows = summary.to_dict("records")
    shorter = [
        f"{row[names.WINDOW_LENGTH_S]:.0f} s" + f" at {row[names.TARGET_USERS]} users"
        for row in rows
        if row[names.WINDOW_SHORT] and np.isfinite(row[names.WINDOW_LENGTH_S])
    ]
    if shorter:
        window += f" (cut short: {', '.join(shorter[:4])})"
    sent = ", ".join(f"{row[names.SENT]:,}" for row in rows[:SHOWN_STEPS]) + (", …" if len(rows) > SHOWN_STEPS else "")
    first = f"Steady window of each step: {window}. Requests sent in it, by step: n = {sent}."
    return "\n".join(
        (
            first,
            "Bands: distribution-free 95 % intervals, samples taken as independent; a percentile without one at its n is "
            "not drawn.",
            "E2E and TPOT: requests still open when the window closed are censored, not dropped (Kaplan-Meier).",
        )
    )
