"""The curves of several runs over each other: interactive ones for the page, and one sheet as a picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import names, panels, plots, report_curves, report_theme
from analysis.compare import Runs, column
from analysis.panels import MUTED, is_log_load
from analysis.report_curves import Plot
from analysis.report_tables import PERCENT
from analysis.scale import Scale
from tokenswarm.metrics import METRICS

SHOWN = (
    (names.TTFT, "p50"),
    (names.TTFT, "p95"),
    (names.ITL, "p50"),
    (names.ITL, "p95"),
    (names.TPOT, "p50"),
    (names.E2E, "p50"),
    (names.OUTPUT_TOKENS_PER_S, ""),
    (names.USER_TOKENS_PER_S, "p50"),
    (names.ERROR_RATIO, ""),
)
SHEET = (SHOWN[0], SHOWN[1], SHOWN[2], SHOWN[4], SHOWN[6], SHOWN[7])


def tag(index: int) -> str:
    """What the page's legend switches: the run at this place."""
    return f"run-{index}"


def curves(runs: Runs) -> list[Plot]:
    """One plot for each of SHOWN that any run has a value of."""
    made = [_curve(runs, metric, which) for metric, which in SHOWN]
    return [plot for plot in made if plot is not None]


def _curve(runs: Runs, metric: str, which: str) -> Plot | None:
    drawn = [panels.with_load(one.summary) for one in runs.analyses]
    name = column(metric, which)
    values = np.concatenate([one[name] if len(one) else [] for one in drawn])
    if not np.isfinite(values).any():
        return None
    scale = _scale(metric, values)
    load = np.unique(np.concatenate([one[names.OBSERVED_CONCURRENCY] if len(one) else [] for one in drawn]))
    y_log = METRICS[metric].unit == "s" and report_theme.is_wide(values)
    made = report_theme.base(x_log=is_log_load(load), y_log=y_log)
    report_theme.value_range(made, values * scale.factor, y_log)
    report_theme.load_axis(made, load)
    colors = report_theme.step_colors(len(drawn))
    for index, one in enumerate(drawn):
        if not len(one):
            continue
        low, high = (one.get(column(metric, which, bound)) for bound in (names.LOW, names.HIGH))
        # what a tooltip shows is text to Bokeh, never markup
        report_curves.line(made, one, one[name], low, high, scale, colors[index], tag(index), which, runs.labels[index])
    return Plot(f"{metric}-{which}", f"{METRICS[metric].label} {which}".strip(), scale.unit, metric, made)


def _scale(metric: str, values: np.ndarray) -> Scale:
    unit = METRICS[metric].unit
    if unit == "s":
        return Scale.of_seconds(values)
    return PERCENT if unit == "ratio" else Scale(unit.replace("1/s", "requests/s"), 1)


def sheet(runs: Runs, path: Path) -> Path:
    """A 16:9 picture of six panels, a colour a run."""
    import matplotlib  # late: slow to load

    matplotlib.use("Agg")
    with matplotlib.rc_context(plots.STYLE):
        return plots.save(_sheet(runs), [path])[0]


def _sheet(runs: Runs) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(13.33, 7.5))
    figure.subplots_adjust(left=0.06, right=0.985, top=0.81, bottom=0.11, wspace=0.2, hspace=0.38)
    drawn = [panels.with_load(one.summary) for one in runs.analyses]
    colors = report_theme.step_colors(len(drawn))
    together = pd.concat([one[[names.OBSERVED_CONCURRENCY]] for one in drawn if len(one)] or [pd.DataFrame()])
    if len(together):
        together = together.drop_duplicates().sort_values(names.OBSERVED_CONCURRENCY)
    for axes, (metric, which) in zip(figure.subplots(2, 3).ravel(), SHEET, strict=True):
        name = column(metric, which)
        scale = _scale(metric, np.concatenate([one[name] if len(one) else [] for one in drawn]))
        unit = f", {scale.unit}" if scale.unit and scale.unit not in METRICS[metric].label.lower() else ""
        axes.set_title(f"{METRICS[metric].label} {which}".strip() + unit)
        for one, color in zip(drawn, colors, strict=True):
            if len(one) and which:
                panels.line(axes, one, metric, which, color, scale.factor)
            elif len(one):
                panels.points(axes, one, one[name], color, "o")
        panels.value_axis(axes)
        panels.load_axis(axes, together)
    models = " / ".join(
        dict.fromkeys(plots.cut(one.run.info.get("model") or "unknown model", 40) for one in runs.analyses)
    )
    figure.text(0.06, 0.95, f"{models}: {len(drawn)} runs", fontsize=19, fontweight="bold", va="center")
    entries = [
        Line2D([], [], color=color, marker="o", linewidth=2, label=plots.cut(label, 40))
        for label, color in zip(runs.labels, colors, strict=True)
    ]
    figure.legend(
        handles=entries,
        loc="center left",
        bbox_to_anchor=(0.06, 0.885),
        ncols=min(len(entries), 4),
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.8,
    )
    foot = (
        "Against observed concurrency (requests in flight, time average). Bands: 95 % intervals. Hollow: invalid step."
    )
    figure.text(0.06, 0.035, foot, fontsize=9.5, color=MUTED, va="center")
    return figure
