"""What is drawn in an interactive plot: lines, areas, bars and points, each from named columns."""

from typing import Any

from analysis.bokeh_json import Model, field, model, value
from analysis.figure import PAPER


def constants(**attributes: Any) -> dict[str, Any]:
    """Attributes that are the same for all points."""
    return {name: value(one) for name, one in attributes.items()}


def joined(color: str, width: float, **more: Any) -> Model:
    """A line through the points (x, y)."""
    return model("Line", x=field("x"), y=field("y"), line_color=color, line_width=width, **more)


def area(low: str, high: str, color: str, alpha: float) -> Model:
    """What lies between two columns."""
    return model("VArea", x=field("x"), y1=field(low), y2=field(high), fill_color=color, fill_alpha=alpha)


def bar(begin: tuple[str, str], end: tuple[str, str], color: str) -> Model:
    """A straight line between two points, each named by its columns."""
    (x0, y0), (x1, y1) = begin, end
    ends = {"x0": field(x0), "y0": field(y0), "x1": field(x1), "y1": field(y1)}
    return model("Segment", **ends, line_color=value(color), line_alpha=value(0.5), line_width=value(2.5))


def point(color: str, is_filled: bool, size: int, width: float, shape: str = "circle") -> Model:
    """A mark at each (x, y); hollow where the step is invalid."""
    return model(
        "Scatter",
        x=field("x"),
        y=field("y"),
        marker=value(shape),
        size=value(size),
        line_color=value(color),
        line_width=value(width),
        fill_color=value(color if is_filled else PAPER),
    )


def dots(size: int, color: str, alpha: float) -> Model:
    """A dot without a rim at each (x, y)."""
    look = constants(size=size, fill_color=color, fill_alpha=alpha, line_color=None)
    return model("Scatter", x=field("x"), y=field("y"), **look)
