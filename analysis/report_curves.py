"""Interactive curves: figures of the summary against observed concurrency, and the frontier of system against user.

A withheld value is no point; an invalid step's point is hollow, joined by dots only; a band is the 95 % interval.
"""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd

from analysis import names, report_theme
from analysis.bokeh_json import field, model, source, value
from analysis.figure import TEXT, Figure, straight
from analysis.glyphs import area, bar, joined, point
from analysis.health import Verdict
from analysis.panels import LINES, SLOW_LINES, TOTAL, is_log_load, runs_of_valid, with_load
from analysis.report_facts import people
from analysis.report_theme import BAD, INK, hover, mark
from analysis.scale import Scale
from tokenswarm.metrics import METRICS

FAR = 1.6  # times the largest value: an interval that reaches beyond would flatten every line
SHAPES = {"p50": "circle", "p95": "square", "p99": "triangle"}


@dataclasses.dataclass(frozen=True, slots=True)
class Plot:
    """One plot with what the page says around it. `metric`: whose definition stands behind its "?"."""

    key: str  # unique in the page
    title: str
    unit: str
    metric: str | None
    figure: Figure
    note: str = ""


def curves(summary: pd.DataFrame) -> list[Plot]:
    """Every curve that has a value in this run; those of goodput only where objectives were set."""
    drawn = with_load(summary)
    if not len(drawn):
        return []
    made = [_latency(drawn, metric) for metric in (names.TTFT, names.ITL, names.TPOT, names.E2E)]
    made += [
        _rate(drawn, names.OUTPUT_TOKENS_PER_S, TOTAL),
        _user_rate(drawn),
        _rate(drawn, names.ERROR_RATIO, BAD, Scale("%", 100)),
    ]
    if names.GOODPUT_PER_S in drawn:
        made.append(_rate(drawn, names.GOODPUT_PER_S, TOTAL))
    return [one for one in made if one is not None]


def _latency(drawn: pd.DataFrame, metric: str) -> Plot | None:
    columns = {which: names.stat(metric, which) for which in LINES}
    values = np.concatenate([drawn[name] for name in columns.values()])
    if not np.isfinite(values).any():
        return None
    scale = Scale.of_seconds(values)
    tops = [drawn[names.stat(metric, which, names.HIGH)] for which in LINES]
    made = _frame(drawn, values * scale.factor, np.concatenate(tops) * scale.factor)
    for which, color in LINES.items():
        low, high = (drawn[names.stat(metric, which, bound)] for bound in (names.LOW, names.HIGH))
        line(made, drawn, drawn[columns[which]], low, high, scale, color, which, which)
    return Plot(metric, METRICS[metric].label, scale.unit, metric, made)


def _user_rate(drawn: pd.DataFrame) -> Plot | None:
    metric = names.USER_TOKENS_PER_S
    values = np.concatenate([drawn[names.stat(metric, which)] for which in SLOW_LINES])
    if not np.isfinite(values).any():
        return None
    scale = Scale("tokens/s", 1)
    tops = [drawn[names.stat(metric, which, names.HIGH)] for which in SLOW_LINES]
    made = _frame(drawn, values, np.concatenate(tops))
    for tag, which in report_theme.SLOW_OF.items():
        low, high = (drawn[names.stat(metric, which, bound)] for bound in (names.LOW, names.HIGH))
        line(made, drawn, drawn[names.stat(metric, which)], low, high, scale, LINES[tag], tag, which)
    note = "The slow end of a rate is the low one: orange and red are p05 and p01 here."
    return Plot(metric, METRICS[metric].label, METRICS[metric].unit, metric, made, note)


def _rate(drawn: pd.DataFrame, metric: str, color: str, scale: Scale | None = None) -> Plot | None:
    values = drawn[metric].to_numpy(dtype=float)
    if not np.isfinite(values).any():
        return None
    unit = METRICS[metric].unit.replace("1/s", "requests/s")
    scale = scale or Scale(unit, 1)
    bounds = [names.stat(metric, bound) for bound in (names.LOW, names.HIGH)]
    known = [drawn.get(name) for name in bounds]
    tops = values if known[1] is None else known[1].to_numpy(dtype=float)
    made = _frame(drawn, values * scale.factor, tops * scale.factor, is_linear=True)
    line(made, drawn, drawn[metric], known[0], known[1], scale, color, "", "")
    return Plot(metric, METRICS[metric].label, scale.unit, metric, made)


def _frame(drawn: pd.DataFrame, values: np.ndarray, tops: np.ndarray, is_linear: bool = False) -> Figure:
    """`tops`: upper ends of the intervals; those far above every value may leave the frame."""
    load = drawn[names.OBSERVED_CONCURRENCY].to_numpy()
    y_log = not is_linear and report_theme.is_wide(values)
    made = report_theme.base(x_log=is_log_load(load), y_log=y_log)
    most = np.nanmax(values)
    report_theme.value_range(made, np.append(values, tops[tops <= FAR * most]), y_log)
    report_theme.load_axis(made, load)
    return made


def line(
    made: Figure,
    drawn: pd.DataFrame,
    values: pd.Series,
    low: pd.Series | None,
    high: pd.Series | None,
    scale: Scale,
    color: str,
    tag: str,
    label: str,
    name: str = "",
) -> None:
    """One line with its band and points; `tag` is what the page's legend switches, `name` the run in a comparison."""
    load, valid = drawn[names.OBSERVED_CONCURRENCY], (drawn[names.VERDICT] != Verdict.INVALID).to_numpy()
    has_band = low is not None and high is not None
    columns: dict[str, Any] = {
        "x": load.to_numpy(dtype=float),
        "y": values.to_numpy(dtype=float) * scale.factor,
        "low": (low if low is not None else values).to_numpy(dtype=float) * scale.factor,
        "high": (high if high is not None else values).to_numpy(dtype=float) * scale.factor,
        "says": [
            _says(label, name, row, scale, has_band)
            for row in zip(
                drawn[names.TARGET_USERS],
                load,
                values,
                low if low is not None else values,
                high if high is not None else values,
                drawn[names.VERDICT],
                strict=True,
            )
        ],
    }
    table = pd.DataFrame(columns)
    known = table[np.isfinite(table.y)]
    if has_band:
        band = known[np.isfinite(known.low) & np.isfinite(known.high)][["x", "low", "high"]]
        mark(made, area("low", "high", color, 0.16), band, tag)
        mark(made, bar(("x", "low"), ("x", "high"), color), band, tag)
    mark(made, joined(color, 1.4, line_dash=[1, 4]), known[["x", "y"]], tag)
    for run in runs_of_valid(valid):
        mark(made, joined(color, 2.2), table.iloc[run][["x", "y"]], tag)
    points = []
    for is_filled in (True, False):
        part = known[valid[known.index] == is_filled]
        if len(part):
            shape = point(color, is_filled, 8, 1.8, SHAPES.get(tag, "circle"))
            points.append(mark(made, shape, part[["x", "y", "says"]], tag, "overlay"))
    hover(made, points, "@says")


def _says(label: str, name: str, row: tuple[Any, ...], scale: Scale, has_band: bool) -> str:
    users, load, value, low, high, verdict = row
    interval = f" [{scale.text(low)} to {scale.text(high)}]" if has_band else ""
    doubt = "" if verdict == Verdict.VALID else f", {verdict}"
    head = " ".join(part for part in (name, label) if part)
    said = f"{head} {scale.text(value)} {scale.unit}{interval}".strip()
    return f"{said} at {people(users)} ({load:.3g} in flight{doubt})"


def frontier(summary: pd.DataFrame) -> Plot | None:
    """System tokens/s over what one user sees, a point a step: what is bought with concurrency, and what it costs."""
    drawn = with_load(summary)
    column = names.stat(names.USER_TOKENS_PER_S, "p50")
    known = drawn[drawn[column].notna() & drawn[names.OUTPUT_TOKENS_PER_S].notna()] if len(drawn) else drawn
    if not len(known):
        return None
    x, y = known[column].to_numpy(), known[names.OUTPUT_TOKENS_PER_S].to_numpy()
    made = report_theme.base(height=340)
    made.x.range = straight(0, float(x.max() * 1.32))  # room for a name
    report_theme.value_range(made, y, False, float(y.max() * 1.18))
    made.x.label = "tokens/s that one user sees (p50)"
    made.y.label = "tokens/s of the system"
    whole = {"x": x, "y": y}
    mark(made, joined(TOTAL, 1.4, line_dash=[1, 4]), whole)
    valid = (known[names.VERDICT] != Verdict.INVALID).to_numpy()
    for run in runs_of_valid(valid):
        mark(made, joined(TOTAL, 2.2), {"x": x[run], "y": y[run]})
    low, high = (known[names.stat(names.USER_TOKENS_PER_S, "p50", bound)] for bound in (names.LOW, names.HIGH))
    mark(made, bar(("low", "y"), ("high", "y"), TOTAL), {"low": low, "high": high, "y": y})
    users = [people(count) for count in known[names.TARGET_USERS]]
    points = []
    for is_filled in (True, False):
        rows = np.flatnonzero(valid == is_filled)
        data = {"x": x[rows], "y": y[rows], "users": [users[row] for row in rows]}
        points.append(mark(made, point(TOTAL, is_filled, 10, 2), data, level="overlay"))
    hover(made, points, "@users: @y{0,0.[0]} tokens/s together, @x{0,0.[0]} tokens/s each")
    labels = {"x": x.tolist(), "y": y.tolist(), "users": _apart(x, y, users)}
    made.annotations.append(
        model(
            "LabelSet",
            x=field("x"),
            y=field("y"),
            text=field("users"),
            source=source(labels),
            x_offset=value(10),
            y_offset=value(5),
            text_color=value(INK),
            **{name: value(constant) for name, constant in TEXT.items()},
        )
    )
    return Plot("frontier", "System against user", "tokens/s", names.USER_TOKENS_PER_S, made)


def _apart(x: np.ndarray, y: np.ndarray, texts: list[str]) -> list[str]:
    """`texts`, empty where a label would stand on the one before it; the point's own tooltip still says it."""
    kept: list[tuple[float, float]] = []
    shown = []
    for across, up, text in zip(x / (x.max() or 1), y / (y.max() or 1), texts, strict=True):
        is_free = all(abs(across - a) > 0.3 or abs(up - b) > 0.07 for a, b in kept)
        shown.append(text if is_free else "")
        if is_free:
            kept.append((across, up))
    return shown
