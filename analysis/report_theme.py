"""Colours and axes that all interactive plots share, for light and for dark.

Plots are drawn in the light colours; the page swaps them by `dark()` where the reader's system is dark.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.bokeh_json import Model, model, source
from analysis.figure import GRID, INK, MUTED, PAPER, Axis, Figure, straight
from analysis.panels import LINES, LOG_RATIO, TOTAL, load_labels

BAD, STOPPED = "#c62f3b", "#8b949e"
SLOW_OF = dict(zip(names.QUANTILES, names.SLOW_QUANTILES, strict=True))  # p95 of a time is p05 of a rate
DARK = {
    INK: "#e6eaef",
    MUTED: "#9aa4af",
    GRID: "#2b323b",
    PAPER: "#161b22",
    BAD: "#ff7b80",
    STOPPED: "#7d8792",
    LINES["p50"]: "#58b0ee",
    LINES["p95"]: "#f2bc57",
    LINES["p99"]: "#ff8c55",
    TOTAL: "#3ecf9d",
}
# from few users to many; no rainbow, so that the order can be seen, and both ends stand out from the paper
STEPS_LIGHT = ("#2a86c8", "#5a55c8", "#a3389b", "#d1495b", "#dd7a14")
STEPS_DARK = ("#6fbff5", "#9f97fb", "#de8ddb", "#f58e9b", "#f7b565")
HEIGHT = 290


def step_colors(count: int) -> list[str]:
    """One colour a step, in order."""
    return _ramp(STEPS_LIGHT, count)


def dark(steps: int) -> dict[str, str]:
    """Light colour → its dark counterpart, of everything that a plot of `steps` steps uses."""
    return DARK | dict(zip(_ramp(STEPS_LIGHT, steps), _ramp(STEPS_DARK, steps), strict=True))


def _ramp(anchors: Sequence[str], count: int) -> list[str]:
    channels = np.array([[int(color[at : at + 2], 16) for at in (1, 3, 5)] for color in anchors])
    spots = np.linspace(0, len(anchors) - 1, count) if count > 1 else np.array([0.0])
    mixed = [np.interp(spots, range(len(anchors)), channels[:, channel]).round().astype(int) for channel in range(3)]
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in zip(*mixed, strict=True)]


def is_wide(values: np.ndarray) -> bool:
    """Whether a linear axis would crush the low end of `values`."""
    known = values[np.isfinite(values)]
    return bool(len(known) and known.min() > 0 and known.max() / known.min() > LOG_RATIO)


def base(x_log: bool = False, y_log: bool = False, height: int = HEIGHT) -> Figure:
    """An empty figure whose axes take the range of what is drawn."""
    return Figure(height, Axis(x_log, model("DataRange1d")), Axis(y_log, model("DataRange1d")))


def mark(
    made: Figure, glyph: Model, data: Mapping[str, Any] | pd.DataFrame, tag: str = "", level: str = "glyph"
) -> Model:
    """Draws `glyph` from columns of `data`; returns its renderer. `tag` is what the page's legend switches.

    Without the variants for selection and muting, which are never used here.
    """
    renderer = model(
        "GlyphRenderer",
        data_source=source(data),
        glyph=glyph,
        tags=[tag] if tag else [],
        level=level,
        nonselection_glyph=None,
        muted_glyph=None,
    )
    made.renderers.append(renderer)
    return renderer


def hover(made: Figure, renderers: Sequence[Model], says: str) -> None:
    """A tooltip for the points of `renderers`; `says` names columns as `@column`."""
    made.hovers.append(model("HoverTool", renderers=list(renderers), tooltips=[["", says]], visible=False))


def value_range(made: Figure, values: np.ndarray, y_log: bool, top: float | None = None) -> float:
    """The y axis from 0 (or, logarithmic, from a little below) to a little above the largest of `values`, or to `top`.

    Returns its upper end.
    """
    known = values[np.isfinite(values)]
    low, high = 0.0, float(known.max()) * 1.1 if len(known) else 1.0
    if y_log and len(known):
        positive = known[known > 0]
        room = math.exp(0.08 * max(math.log(positive.max() / positive.min()), 0.5))
        low, high = float(positive.min() / room), float(positive.max() * room)
    elif top is not None:
        high = top
    made.y.range = straight(low, high or 1.0)
    return high or 1.0


def load_axis(made: Figure, load: np.ndarray) -> None:
    """A tick at each step's observed concurrency; labels that would touch are left away."""
    if not len(load):
        return
    _, low, high, labels = load_labels(load)
    made.x.range = straight(low, high)
    made.x.ticks = [(float(at), label) for at, label in zip(load, labels, strict=True)]
    made.x.label = "requests in flight"
