"""Colours and axes that all interactive plots share, for light and for dark.

Plots are drawn in the light colours; the page swaps them by `dark()` where the reader's system is dark.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.panels import LINES, LOG_RATIO, TOTAL, load_labels

if TYPE_CHECKING:
    from bokeh.plotting import figure as Figure

INK, MUTED, GRID, PAPER = "#1b1f24", "#57606a", "#e1e5ea", "#fffffe"
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
Columns = Mapping[str, Any] | pd.DataFrame
LOG_TICKS = [digit * 10.0**power for power in range(-4, 8) for digit in (1, 2, 5)]
LOG_TICKS_ACROSS = [digit * 10.0**power for power in range(-4, 8) for digit in (1, 3)]  # numbers need room there
HEIGHT = 290
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


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


def base(x_log: bool = False, y_log: bool = False, height: int = HEIGHT, **more: Any) -> "Figure":
    """An empty figure that fills the width it is given. Dragging pans a page on a phone, so no tool is active."""
    from bokeh.plotting import figure

    made = figure(
        height=height,
        sizing_mode="stretch_width",
        x_axis_type="log" if x_log else "linear",
        y_axis_type="log" if y_log else "linear",
        tools="pan,box_zoom,wheel_zoom,reset,save",
        active_drag=None,
        active_scroll=None,
        active_tap=None,
        toolbar_location="above",
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_left=46,
        min_border_right=14,
        min_border_bottom=30,
        lod_threshold=None,
        **more,
    )
    made.toolbar.logo = None
    made.toolbar.autohide = True
    made.xgrid.grid_line_color = None
    made.ygrid.grid_line_color = GRID
    for axis in (*made.xaxis, *made.yaxis):
        axis.axis_line_color = axis.major_tick_line_color = MUTED
        axis.minor_tick_line_color = None
        axis.major_label_text_color = axis.axis_label_text_color = MUTED
        axis.major_label_text_font = axis.axis_label_text_font = FONT
        axis.major_label_text_font_size = axis.axis_label_text_font_size = "12px"
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_standoff = 6
    for axis in made.yaxis:
        axis.axis_line_color = axis.major_tick_line_color = None
    _numbers(made, x_log, y_log)
    return made


def _numbers(made: "Figure", x_log: bool, y_log: bool) -> None:
    """Plain numbers on every axis, no powers; few ticks on a logarithmic one."""
    from bokeh.models import BasicTicker, FixedTicker, NumeralTickFormatter

    for axis, is_log, ticks in ((made.xaxis[0], x_log, LOG_TICKS_ACROSS), (made.yaxis[0], y_log, LOG_TICKS)):
        axis.formatter = NumeralTickFormatter(format="0,0.[0000]")
        if is_log:
            axis.ticker = FixedTicker(ticks=ticks)  # Bokeh's own crowd at the upper end of less than two decades
        else:
            axis.ticker = BasicTicker(desired_num_ticks=5)


def mark(made: "Figure", glyph: Any, data: Columns, tag: str = "", level: str = "glyph") -> Any:
    """Draws `glyph` from columns of `data`; returns its renderer. `tag` is what the page's legend switches.

    Made without the variants for selection and muting, which are never used here: half the file, half the time.
    """
    from bokeh.models import ColumnDataSource

    columns: dict[str, Any] = {
        str(name): np.asarray(column, np.float32) if _is_number(column) else column for name, column in data.items()
    }
    return made.add_glyph(
        ColumnDataSource(columns),
        glyph,
        tags=[tag] if tag else [],
        level=level,
        nonselection_glyph=None,
        muted_glyph=None,
    )


def _is_number(column: Any) -> bool:
    return np.asarray(column).dtype.kind in "fiu"


def hover(made: "Figure", renderers: Sequence[Any], says: str, **more: Any) -> None:
    """A tooltip for the points of `renderers`; `says` names columns as `@column`."""
    from bokeh.models import HoverTool

    made.add_tools(HoverTool(renderers=list(renderers), tooltips=[("", says)], visible=False, **more))


def value_range(made: "Figure", values: np.ndarray, y_log: bool, top: float | None = None) -> float:
    """The y axis from 0 (or, logarithmic, from a little below) to a little above the largest of `values`, or to `top`.

    Returns its upper end.
    """
    from bokeh.models import Range1d

    known = values[np.isfinite(values)]
    low, high = 0.0, float(known.max()) * 1.1 if len(known) else 1.0
    if y_log and len(known):
        positive = known[known > 0]
        room = math.exp(0.08 * max(math.log(positive.max() / positive.min()), 0.5))
        low, high = float(positive.min() / room), float(positive.max() * room)
    elif top is not None:
        high = top
    made.y_range = Range1d(start=low, end=high or 1.0)
    return high or 1.0


def load_axis(made: "Figure", load: np.ndarray) -> None:
    """A tick at each step's observed concurrency; labels that would touch are left away."""
    from bokeh.models import FixedTicker, Range1d

    if not len(load):
        return
    _, low, high, labels = load_labels(load)
    made.x_range = Range1d(start=low, end=high)
    made.xaxis[0].ticker = FixedTicker(ticks=[float(value) for value in load])
    made.xaxis[0].major_label_overrides = {float(value): label for value, label in zip(load, labels, strict=True)}
    made.xaxis[0].axis_label = "requests in flight"
