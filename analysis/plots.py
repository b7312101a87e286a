"""curve.png and curve.svg: the sheet of panels with its title, legend and footnote, from the summary alone."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis import fonts, names, panels
from analysis.health import Verdict
from analysis.panels import LINES, MARKERS, MUTED
from tokenswarm.runfolder import CURVE_PNG, CURVE_SVG

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILES = (CURVE_PNG, CURVE_SVG)
INK = "#1b1f24"
SHOWN_STEPS = 12  # of the footnote's list
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


def prepare() -> None:
    """Loads what drawing needs: a third of its time."""
    import matplotlib.backends.backend_agg
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401


def write(summary: pd.DataFrame, info: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draws the curve into `folder`, each file whole or not at all."""
    import matplotlib  # late: slow to load

    matplotlib.use("Agg")
    with matplotlib.rc_context(STYLE):
        return save(draw(summary, info), [folder / name for name in FILES])


def save(figure: "Figure", paths: Sequence[Path]) -> list[Path]:
    """Writes the figure to each path, in the format that its name says, each file whole or not at all."""
    for path in paths:
        part = path.with_name(f"{path.name}.part")
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        with fonts.fitting(figure, stays_text=path.suffix == ".svg"):
            figure.savefig(part, format=path.suffix[1:], dpi=150, facecolor="white", metadata=metadata)
        os.replace(part, path)
    return list(paths)


def draw(summary: pd.DataFrame, info: Mapping[str, Any]) -> "Figure":
    """A 16:9 sheet of six panels that share the axis of observed concurrency."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.33, 7.5))
    sheet = figure.subplots(2, 3).ravel()
    figure.subplots_adjust(left=0.06, right=0.985, top=0.795, bottom=0.175, wspace=0.2, hspace=0.38)
    figure.text(0.06, 0.95, title(info), fontsize=19, fontweight="bold", va="center")
    figure.text(0.06, 0.9, subtitle(info), fontsize=12, color=MUTED, va="center")
    drawn = panels.with_load(summary)
    for axes, metric in zip(sheet, (names.TTFT, names.ITL, names.TPOT, names.E2E), strict=False):
        panels.latency(axes, drawn, metric)
    panels.throughput(sheet[4], drawn)
    panels.user_rate(sheet[5], drawn)
    for axes in sheet:
        panels.load_axis(axes, drawn)
    sheet[3].set_xlabel("observed concurrency (requests in flight, time average)", loc="left")
    _legend(figure, drawn)
    figure.text(0.06, 0.02, _footnote(summary), fontsize=9.5, color=MUTED, va="bottom", linespacing=1.35)
    return figure


def _legend(figure: "Figure", drawn: pd.DataFrame) -> None:
    figure.legend(
        handles=legend_entries(drawn),
        loc="center left",
        bbox_to_anchor=(0.06, 0.858),
        ncols=6,
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        columnspacing=1.8,
    )


def legend_entries(drawn: pd.DataFrame) -> list[Any]:
    """The lines of a latency, the band, and the hollow point where there is one."""
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
    return entries


def title(info: Mapping[str, Any]) -> str:
    return f"{cut(info.get('model') or 'unknown model', 50)}: latency against concurrency"


def subtitle(info: Mapping[str, Any]) -> str:
    """Target, workload and run: what a picture torn from its report must still say."""
    conditions = info.get("conditions") or {}
    workload = [
        f"{conditions[name]} {text}"
        for name, text in (("prompt_tokens", "prompt tokens"), ("max_tokens", "output tokens at most"))
        if conditions.get(name) is not None
    ]
    scenario = (info.get("scenario") or {}).get("name")
    parts = [
        cut(info.get("target") or "unknown target", 60),
        ", ".join(workload),
        f"{scenario}, closed loop" if scenario else "",
        f"run {cut(info['run_id'], 40)}" if info.get("run_id") else "",
    ]
    return "  ·  ".join(part for part in parts if part)


def cut(text: object, limit: int) -> str:
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
            "Bands: 95 % intervals, widened by what correlation in time takes away; a percentile without one at its n is "
            "not drawn.",
            "E2E and TPOT: requests still open when the window closed are censored, not dropped (Kaplan-Meier).",
        )
    )
