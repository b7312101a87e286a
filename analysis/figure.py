"""One interactive plot: its axes, what is drawn in it, and what is said about a point. Looks are those of the theme."""

import dataclasses
from collections.abc import Sequence

from analysis.bokeh_json import Model, mapping, model

INK, MUTED, GRID, PAPER = "#1b1f24", "#57606a", "#e1e5ea", "#fffffe"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
TEXT = {"text_font": FONT, "text_font_size": "12px"}
LOG_TICKS = [digit * 10.0**power for power in range(-4, 8) for digit in (1, 2, 5)]
LOG_TICKS_ACROSS = [digit * 10.0**power for power in range(-4, 8) for digit in (1, 3)]  # numbers need room there


@dataclasses.dataclass(slots=True)
class Axis:
    """`ticks` and the label of each: where round numbers do not fit."""

    is_log: bool
    range: Model
    label: str = ""
    ticks: Sequence[tuple[float, str]] = ()


@dataclasses.dataclass(slots=True)
class Figure:
    """An empty one fills the width it is given. Dragging pans a page on a phone, so no tool is active."""

    height: int
    x: Axis
    y: Axis
    renderers: list[Model] = dataclasses.field(default_factory=list)
    annotations: list[Model] = dataclasses.field(default_factory=list)
    hovers: list[Model] = dataclasses.field(default_factory=list)


def straight(start: float, end: float) -> Model:
    """A range of an axis."""
    return model("Range1d", start=start, end=end)


def whole(figure: Figure, name: str) -> Model:
    """The figure with axes, grid and tools."""
    across = _axis(figure.x, LOG_TICKS_ACROSS, axis_line_color=MUTED, major_tick_line_color=MUTED)
    up = _axis(figure.y, LOG_TICKS, axis_line_color=None, major_tick_line_color=None)
    grids = [
        model("Grid", axis=across, grid_line_color=None),
        model("Grid", dimension=1, axis=up, grid_line_color=GRID),
    ]
    return model(
        "Figure",
        name=name,
        height=figure.height,
        sizing_mode="stretch_width",
        x_range=figure.x.range,
        y_range=figure.y.range,
        x_scale=_scale(figure.x),
        y_scale=_scale(figure.y),
        renderers=figure.renderers,
        toolbar=_toolbar(figure.hovers),
        toolbar_location="above",
        left=[up],
        below=[across],
        center=[*grids, *figure.annotations],
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        min_border_left=46,
        min_border_right=14,
        min_border_bottom=30,
        lod_threshold=None,
    )


def _scale(axis: Axis) -> Model:
    return model("LogScale" if axis.is_log else "LinearScale")


def _axis(axis: Axis, log_ticks: Sequence[float], **lines: str | None) -> Model:
    """Plain numbers, no powers; few ticks on a logarithmic axis, where Bokeh's own crowd at the upper end."""
    ticks = [at for at, _ in axis.ticks] or (list(log_ticks) if axis.is_log else [])
    texts = {
        f"{part}_{name}": text
        for part in ("axis_label", "major_label")
        for name, text in ({"text_color": MUTED} | TEXT).items()
    }
    return model(
        "LogAxis" if axis.is_log else "LinearAxis",
        ticker=model("FixedTicker", ticks=ticks) if ticks else model("BasicTicker", desired_num_ticks=5),
        formatter=model("NumeralTickFormatter", format="0,0.[0000]"),
        axis_label_standoff=6,
        axis_label_text_font_style="normal",
        minor_tick_line_color=None,
        **({"axis_label": axis.label} if axis.label else {}),
        **({"major_label_overrides": mapping(axis.ticks)} if axis.ticks else {}),
        **texts,
        **lines,
    )


def _toolbar(hovers: Sequence[Model]) -> Model:
    tools = [model(name) for name in ("PanTool", "BoxZoomTool", "WheelZoomTool", "ResetTool", "SaveTool")]
    none = dict.fromkeys(("logo", "active_drag", "active_scroll", "active_tap"))
    return model("Toolbar", tools=[*tools, *hovers], autohide=True, **none)
