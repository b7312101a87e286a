"""Interactive plots of what the server said of itself over the run, on the time axis of the other plots."""

import numpy as np
import pandas as pd

from analysis import report_theme
from analysis.cells import MICRO
from analysis.figure import Figure
from analysis.glyphs import joined
from analysis.panels import LINES
from analysis.report_curves import Plot
from analysis.report_series import zero_us
from analysis.report_timelines import frame, marked
from analysis.report_words import SERVER_CACHE, SERVER_REQUESTS
from analysis.server_state import KV_CACHE, RUNNING, WAITING, over_time

COLORS = {RUNNING: LINES["p50"], WAITING: LINES["p99"]}
WIDTH = 1.8


def plots(server: pd.DataFrame, requests: pd.DataFrame, steps: pd.DataFrame, beside: list[Plot]) -> list[Plot]:
    """Requests at work and in the queue; the share of the KV cache in use. What the server does not say is not drawn.

    Frames as of `load` and `steady`; beside: the timelines whose axis these share. None without those.
    """
    if not len(server) or not beside:
        return []
    start_us, across = zero_us(requests, steps), beside[0].figure.x
    found = over_time(server)
    shown = found.assign(at_s=(found.us - start_us) / MICRO).query("at_s >= 0")
    marks = marked(steps, start_us)
    made = []
    if shown[[RUNNING, WAITING]].notna().to_numpy().any():
        made.append(_requests(shown, frame(marks, shown[[RUNNING, WAITING]].to_numpy().ravel())))
    if shown[KV_CACHE].notna().any():
        made.append(_cache(shown, frame(marks, shown[KV_CACHE].to_numpy() * 100)))
    for plot in made:
        plot.figure.x.range, plot.figure.x.label = across.range, across.label
    return made


def _requests(shown: pd.DataFrame, made: Figure) -> Plot:
    for name, color in COLORS.items():
        _line(made, shown.at_s, shown[name], color, f"{{0,0.[0]}} {name}")
    note = "As the server says of itself. Blue: being computed. Red: waiting in its queue."
    return Plot("time-server", "Requests in the server", "once a second", SERVER_REQUESTS, made, note)


def _cache(shown: pd.DataFrame, made: Figure) -> Plot:
    _line(made, shown.at_s, shown[KV_CACHE] * 100, LINES["p50"], "{0,0.[0]} %")
    return Plot("time-cache", "KV cache in use", "%", SERVER_CACHE, made, "As the server says of itself.")


def _line(made: Figure, at_s: pd.Series, values: pd.Series, color: str, says: str) -> None:
    if not np.isfinite(values).any():
        return
    drawn = report_theme.mark(made, joined(color, WIDTH), {"x": at_s, "y": values})
    report_theme.hover(made, [drawn], f"@y{says}, at @x{{0,0}} s")
