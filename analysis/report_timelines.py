"""Interactive plots over the time of the run, one axis for all of them: zooming one zooms all. Steps are marked."""

import numpy as np
import pandas as pd

from analysis import names, report_theme
from analysis.bokeh_json import field, model
from analysis.cells import MICRO
from analysis.figure import TEXT, Figure, straight
from analysis.glyphs import constants, dots, joined
from analysis.panels import LINES, TOTAL
from analysis.report_curves import Plot
from analysis.report_facts import people
from analysis.report_series import Timeline, zero_us
from analysis.report_theme import BAD, INK, MUTED, STOPPED
from analysis.scale import Scale
from tokenswarm.metrics import METRICS

HEIGHT = 210
HEADROOM = 1.22  # above the data, for the steps' names
NAMED_STEPS = 4  # with more, the word "users" has no room on a phone


def timelines(found: Timeline, requests: pd.DataFrame, steps: pd.DataFrame) -> list[Plot]:
    """TTFT of each request, tokens/s, requests in flight, errors; steady windows shaded."""
    if not len(requests):
        return []
    start_us = zero_us(requests, steps)
    marks = marked(steps, start_us)
    bins, per = found.bins, f"per {found.bin_s:g} s"
    dot_note = f"every {found.every}th request is a dot; the lines are of all" if found.every > 1 else ""
    plots = []
    if len(found.dots):
        plots.append(_ttft(found, marks, dot_note))
    made = frame(marks, bins.tokens_per_s.to_numpy())
    _line(made, bins, "tokens_per_s", TOTAL)
    title = METRICS[names.OUTPUT_TOKENS_PER_S].label
    plots.append(Plot("time-tokens", title, f"mean {per}", names.OUTPUT_TOKENS_PER_S, made))
    made = frame(marks, bins.in_flight.to_numpy())
    _line(made, bins, "in_flight", LINES["p50"])
    plots.append(Plot("time-flight", "Requests in flight", f"mean {per}", names.OBSERVED_CONCURRENCY, made))
    plots.append(_errors(found, marks, per))
    shared = straight(0, max(len(bins) * found.bin_s, *(end for _, end, _ in marks), 1))
    for plot in plots:
        plot.figure.x.range = shared
        plot.figure.x.label = "seconds since the first step began"
    return plots


def marked(steps: pd.DataFrame, start_us: float) -> list[tuple[float, float, str]]:
    """(begin, end, name) of each step that has a steady window, in seconds."""
    return [
        ((begin_us - start_us) / MICRO, (end_us - start_us) / MICRO, _name(users, len(steps)))
        for begin_us, end_us, users in steps.loc[
            steps.begin_us.notna(), ["begin_us", "end_us", "target_users"]
        ].to_numpy(dtype=float)
    ]


def _name(users: float, steps: int) -> str:
    return people(int(users)) if steps <= NAMED_STEPS else f"{users:,.0f}"


def frame(marks: list[tuple[float, float, str]], values: np.ndarray, y_log: bool = False) -> Figure:
    """An empty figure with room for `values`, its steps shaded and named. marks: as of `marked`."""
    made = report_theme.base(height=HEIGHT, y_log=y_log)
    known = values[np.isfinite(values)]
    most = float(known.max()) if len(known) else 1.0
    if y_log:
        most *= (most / float(known.min())) ** (HEADROOM - 1)
    top = report_theme.value_range(made, np.append(values, most), y_log, None if y_log else (most or 1) * HEADROOM)
    taken = -np.inf
    span = (marks[-1][1] - marks[0][0]) if marks else 1.0
    for begin, end, name in marks:
        shade = {"fill_color": MUTED, "fill_alpha": 0.09, "line_color": None}
        made.annotations.append(model("BoxAnnotation", left=begin, right=end, **shade, level="underlay"))
        if begin - taken < (0.035 + 0.012 * len(name)) * span:
            continue
        taken = begin
        place = {"x": begin, "y": top, "x_offset": 4, "y_offset": -4, "text_baseline": "top"}
        made.annotations.append(model("Label", text=name, text_color=INK, **place, **TEXT))
    return made


def _line(made: Figure, bins: pd.DataFrame, name: str, color: str, factor: float = 1.0) -> None:
    report_theme.mark(made, joined(color, 1.8), {"x": bins.at_s, "y": bins[name] * factor}, name)


def _ttft(found: Timeline, marks: list[tuple[float, float, str]], note: str) -> Plot:
    values = found.dots.ttft_s.to_numpy()
    scale = Scale.of_seconds(values)
    y_log = report_theme.is_wide(values)
    made = frame(marks, values * scale.factor, y_log)
    drawn = report_theme.mark(made, dots(4, MUTED, 0.5), {"x": found.dots.at_s, "y": values * scale.factor})
    report_theme.hover(made, [drawn], f"@y{{0,0.[0]}} {scale.unit}, sent at @x{{0,0.[0]}} s")
    for which in ("p50", "p95"):
        _line(made, found.bins, which, LINES[which], scale.factor)
    bins = f"p50 and p95 per {found.bin_s:g} s, where the requests sent in it are enough"
    text = f"A dot is a request, placed where it was sent; {'; '.join(part for part in (bins, note) if part)}."
    return Plot("time-ttft", f"{METRICS[names.TTFT].label} of each request", scale.unit, names.TTFT, made, text)


def _errors(found: Timeline, marks: list[tuple[float, float, str]], per: str) -> Plot:
    bins = found.bins
    made = frame(marks, bins[["failed", "stopped"]].max(axis=1).to_numpy())
    width = found.bin_s * 0.9
    for name, color in (("stopped", STOPPED), ("failed", BAD)):
        some = bins[bins[name] > 0]
        look = constants(width=width, fill_color=color, line_color=None)
        bar = model("VBar", x=field("x"), top=field("y"), **look)
        report_theme.mark(made, bar, {"x": some.at_s, "y": some[name]})
    note = "Red: failed or empty, when they ended. Grey: stopped by us, no failure of the server."
    if not (bins.failed.any() or bins.stopped.any()):
        note = "No request failed, and none was stopped before the last step ended."
    return Plot("time-errors", "Errors", f"requests {per}", names.ERROR_RATIO, made, note)
