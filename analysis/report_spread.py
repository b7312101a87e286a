"""Interactive plots of what one step's requests look like: distributions, ITL over the answer, TTFT over the prompt."""

import numpy as np
import pandas as pd

from analysis import names, report_series, report_theme
from analysis.bokeh_json import field, model
from analysis.chunks import Chunks
from analysis.glyphs import area, dots, joined
from analysis.report_curves import Plot
from analysis.report_facts import people
from analysis.report_theme import hover, mark
from analysis.scale import Scale
from tokenswarm.metrics import METRICS


def spreads(requests: pd.DataFrame, chunks: Chunks, steps: pd.DataFrame) -> list[Plot]:
    """Those plots that have something to show in this run; lines and dots of step i carry the tag `step-i`."""
    colors = report_theme.step_colors(len(steps))
    made = [
        *(_ecdf(report_series.ecdfs(requests, steps, metric), metric, steps, colors) for metric in _REQUEST_METRICS),
        _over_answer(report_series.answer_position(requests, chunks, steps), steps, colors),
        _over_prompt(*report_series.prompts(requests, steps), steps, colors),
    ]
    return [plot for plot in made if plot is not None]


_REQUEST_METRICS = (names.TTFT, names.TPOT, names.E2E)


def tag(index: int) -> str:
    """What the page's legend switches: the step in this row of the steps."""
    return f"step-{index}"


def _users(steps: pd.DataFrame, index: int) -> str:
    return people(int(steps.target_users.iloc[index]))


def _ecdf(parts: list[pd.DataFrame], metric: str, steps: pd.DataFrame, colors: list[str]) -> Plot | None:
    values = np.concatenate([part.value_s for part in parts]) if parts else np.empty(0)
    if len(values) < 2:
        return None
    scale = Scale.of_seconds(values)
    x_log = report_theme.is_wide(values)
    made = report_theme.base(x_log=x_log)
    report_theme.value_range(made, np.array([100.0]), False, 104.0)
    made.x.label = f"{METRICS[metric].label}, {scale.unit}"
    for index, part in enumerate(parts):
        if not len(part):
            continue
        data = {"x": part.value_s * scale.factor, "y": part.share * 100}
        shape = model("Step", x=field("x"), y=field("y"), mode="after", line_color=colors[index], line_width=2)
        drawn = mark(made, shape, data, tag(index))
        hover(made, [drawn], f"{_users(steps, index)}: @y{{0.[0]}} % within @x{{0,0.[0]}} {scale.unit}")
    return Plot(f"ecdf-{metric}", METRICS[metric].label, "% of requests within", metric, made)


def _over_answer(parts: list[pd.DataFrame], steps: pd.DataFrame, colors: list[str]) -> Plot | None:
    spans = [part[["low_s", "p50_s", "high_s"]].to_numpy().ravel() for part in parts]
    values = np.concatenate(spans) if spans else np.empty(0)
    if not len(values):
        return None
    scale = Scale.of_seconds(values)
    y_log = report_theme.is_wide(values)
    made = report_theme.base(y_log=y_log)
    report_theme.value_range(made, values * scale.factor, y_log)
    made.x.label = "position in the answer, chunks"
    for index, part in enumerate(parts):
        if not len(part):
            continue
        low, y, high = (part[f"{name}_s"] * scale.factor for name in ("low", "p50", "high"))
        data = {"x": part.position, "low": low, "y": y, "high": high}
        mark(made, area("low", "high", colors[index], 0.13), data, tag(index))
        drawn = mark(made, joined(colors[index], 2), data, tag(index))
        between = "[@low{0,0.[00]} to @high{0,0.[00]}]"
        hover(made, [drawn], f"{_users(steps, index)}: @y{{0,0.[00]}} {scale.unit} {between} at chunk @x{{0}}")
    note = (
        "Median gap before each chunk; the band is the middle half of the gaps, no interval of the median. "
        "A rising line: decoding slows as the context grows."
    )
    return Plot("itl-position", f"{METRICS[names.ITL].label} over the answer", scale.unit, names.ITL, made, note)


def _over_prompt(parts: list[pd.DataFrame], every: int, steps: pd.DataFrame, colors: list[str]) -> Plot | None:
    whole = pd.concat(parts) if parts else pd.DataFrame({"prompt_tokens": [], "ttft_s": []})
    if whole.prompt_tokens.nunique() < 2:
        return None
    scale = Scale.of_seconds(whole.ttft_s)
    values, lengths = whole.ttft_s.to_numpy(), whole.prompt_tokens.to_numpy(dtype=float)
    y_log = report_theme.is_wide(values)
    made = report_theme.base(x_log=report_theme.is_wide(lengths), y_log=y_log)
    report_theme.value_range(made, values * scale.factor, y_log)
    made.x.label = "prompt tokens"
    for index, part in enumerate(parts):
        if not len(part):
            continue
        drawn = mark(
            made, dots(5, colors[index], 0.6), {"x": part.prompt_tokens, "y": part.ttft_s * scale.factor}, tag(index)
        )
        hover(made, [drawn], f"{_users(steps, index)}: @y{{0,0.[0]}} {scale.unit} for @x{{0,0}} prompt tokens")
    note = "A dot is a request of a steady window" + (f"; every {every}th is drawn." if every > 1 else ".")
    return Plot("ttft-prompt", f"{METRICS[names.TTFT].label} over the prompt", scale.unit, names.TTFT, made, note)
