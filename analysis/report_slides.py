"""PNG and SVG of each curve, one to a slide: `curves/ttft.png` and so on, with what a picture torn from its report must
still say."""

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis import names, panels, plots
from analysis.panels import MUTED, TOTAL
from tokenswarm.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = "curves"
BAD = "#c62f3b"
Drawing = Callable[["Axes", pd.DataFrame], None]  # axes, steps as of `panels.with_load`


def write(summary: pd.DataFrame, info: Mapping[str, Any], folder: Path) -> list[Path]:
    """The files, written into `folder`/curves; a curve without a value in this run is left out."""
    import matplotlib  # late: slow to load

    drawn = panels.with_load(summary)
    if not len(drawn):
        return []
    matplotlib.use("Agg")
    into = folder / FOLDER
    into.mkdir(exist_ok=True)
    written = []
    with matplotlib.rc_context(plots.STYLE):
        for name, drawing in _drawings(drawn).items():
            figure = _slide(drawing, drawn, info, has_lines=name in (*names.LATENCIES, names.USER_TOKENS_PER_S))
            written += plots.save(figure, [into / f"{name}.png", into / f"{name}.svg"])
    return written


def _drawings(drawn: pd.DataFrame) -> dict[str, Drawing]:
    """Name of the file → what draws it."""
    found: dict[str, Drawing] = {}
    for metric in (names.TTFT, names.ITL, names.TPOT, names.E2E):
        if drawn[names.stat(metric, "p50")].notna().any():
            found[metric] = functools.partial(panels.latency, metric=metric)
    found[names.OUTPUT_TOKENS_PER_S] = panels.throughput
    if drawn[names.stat(names.USER_TOKENS_PER_S, "p50")].notna().any():
        found[names.USER_TOKENS_PER_S] = panels.user_rate
        found["frontier"] = panels.frontier
    found[names.ERROR_RATIO] = lambda axes, frame: panels.rate(
        axes, frame, names.ERROR_RATIO, f"{METRICS[names.ERROR_RATIO].label}, %", BAD, 100
    )
    if names.GOODPUT_PER_S in drawn:
        title = f"{METRICS[names.GOODPUT_PER_S].label}, requests/s"
        found[names.GOODPUT_PER_S] = lambda axes, frame: panels.rate(axes, frame, names.GOODPUT_PER_S, title, TOTAL)
    return found


def _slide(drawing: Drawing, drawn: pd.DataFrame, info: Mapping[str, Any], has_lines: bool) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 5.4))
    axes = figure.subplots()
    figure.subplots_adjust(left=0.09, right=0.97, top=0.8, bottom=0.17)
    drawing(axes, drawn)
    figure.text(0.09, 0.945, axes.get_title(loc="left"), fontsize=17, fontweight="bold", va="center")
    axes.set_title("")
    if not axes.get_xlabel():
        panels.load_axis(axes, drawn)
        axes.set_xlabel("observed concurrency (requests in flight, time average)", loc="left")
    entries = plots.legend_entries(drawn)
    figure.legend(
        handles=entries if has_lines else entries[4:],
        loc="center left",
        bbox_to_anchor=(0.09, 0.87),
        ncols=5,
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.6,
        fontsize=11,
    )
    torn = "  ·  ".join((plots.cut(info.get("model") or "unknown model", 50), plots.subtitle(info)))
    figure.text(0.09, 0.035, torn, fontsize=9, color=MUTED, va="center")
    return figure
