"""The summary as tables for a page: a row a figure, a column a step. Texts only; whoever prints them escapes them."""

import dataclasses
from collections.abc import Sequence

import pandas as pd

from analysis import names
from analysis.report_words import SERVER_CACHE, SERVER_REQUESTS
from analysis.scale import WITHHELD, Scale
from analysis.server_state import ServerLoad
from analysis.table import PLAIN, shown_latencies
from tokenswarm.metrics import METRICS
from tokenswarm.record import Outcome

PERCENT = Scale("%", 100)


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A figure as text, and its 95 % interval or "" where there is none."""

    text: str
    interval: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One figure over all steps. `term`: the metric or word whose definition explains it, "" where the section's does."""

    label: str
    unit: str
    term: str
    cells: list[Cell]


@dataclasses.dataclass(frozen=True, slots=True)
class Section:
    """Lines that belong together; `term` as of `Line`."""

    title: str
    unit: str
    term: str
    lines: list[Line]


def sections(summary: pd.DataFrame) -> list[Section]:
    """Latencies, throughput, requests: everything a person compares between steps. A latency without a sample is none."""
    seen = [metric for metric in shown_latencies(summary) if summary[names.count(metric)].any()]
    return [*(_latency(summary, metric) for metric in seen), _throughput(summary), counts(summary)]


def _latency(summary: pd.DataFrame, metric: str) -> Section:
    columns = [names.stat(metric, which) for which in (names.MEAN, *names.QUANTILES, names.MAX)]
    scale = Scale.of_seconds(pd.concat([summary[name] for name in columns]))
    lines = [figure(summary, metric, which, scale, which, "") for which in (names.MEAN, *names.QUANTILES)]
    lines.append(Line(names.MAX, "", "", [Cell(scale.text(x)) for x in summary[names.stat(metric, names.MAX)]]))
    lines.append(Line("samples", "", "", [Cell(f"{n:,}") for n in summary[names.count(metric)]]))
    if summary[names.left_out(metric)].any():
        lines.append(Line("left out", "", "left_out", [Cell(f"{n:,}") for n in summary[names.left_out(metric)]]))
    return Section(METRICS[metric].label, scale.unit, metric, lines)


def figure(summary: pd.DataFrame, metric: str, which: str, scale: Scale, label: str, term: str) -> Line:
    """One statistic of a metric with its interval."""
    low, high = (summary[names.stat(metric, which, bound)] for bound in (names.LOW, names.HIGH))
    return Line(label, "", term, _cells(summary[names.stat(metric, which)], low, high, scale))


def _cells(values: pd.Series, low: pd.Series, high: pd.Series, scale: Scale) -> list[Cell]:
    return [
        Cell(
            scale.text(value), f"{scale.text(least)}–{scale.text(most)}" if pd.notna(value) and pd.notna(least) else ""
        )
        for value, least, most in zip(values, low, high, strict=True)
    ]


def rate(summary: pd.DataFrame, metric: str, scale: Scale = PLAIN, unit: str = "") -> Line | None:
    """A figure of the whole step, with an interval where the summary has one; None where this run has none."""
    if metric not in summary:
        return None
    bounds = [names.stat(metric, bound) for bound in (names.LOW, names.HIGH)]
    cells = [Cell(scale.text(value)) for value in summary[metric]]
    if all(name in summary for name in bounds):
        cells = _cells(summary[metric], summary[bounds[0]], summary[bounds[1]], scale)
    return Line(METRICS[metric].label, unit, metric, cells)


def _present(lines: Sequence[Line | None]) -> list[Line]:
    return [line for line in lines if line is not None and any(cell.text != WITHHELD for cell in line.cells)]


def _throughput(summary: pd.DataFrame) -> Section:
    user = f"{METRICS[names.USER_TOKENS_PER_S].label}"
    lines = [
        rate(summary, names.OUTPUT_TOKENS_PER_S),
        rate(summary, names.TOTAL_TOKENS_PER_S),
        *(
            figure(summary, names.USER_TOKENS_PER_S, which, PLAIN, f"{user} {which}", names.USER_TOKENS_PER_S)
            for which in names.SLOW_QUANTILES
        ),
        rate(summary, names.REQUESTS_PER_S),
        rate(summary, names.GOODPUT_PER_S, unit="requests/s"),
        rate(summary, names.SLO_ATTAINMENT, PERCENT, "%"),
        rate(summary, names.TOKENS_PER_CHUNK),
    ]
    return Section("Throughput", "", "", _present(lines))


def counts(summary: pd.DataFrame) -> Section:
    """Requests sent in the window and what became of them; kinds that never occurred are left away."""
    kinds = [("sent", names.SENT)]
    kinds += [(outcome.value, names.outcome_count(outcome)) for outcome in Outcome]
    kinds += [("open at close", names.CENSORED), ("start burst", names.START_BURST)]
    lines: list[Line | None] = [
        Line(label, "", label.replace(" ", "_"), [Cell(f"{count:,}") for count in summary[name]])
        for label, name in kinds
        if summary[name].any() or name == names.SENT
    ]
    lines += [rate(summary, names.ERROR_RATIO, PERCENT, "%"), rate(summary, names.TRUNCATED_RATIO, PERCENT, "%")]
    lines.append(Line("window", "s", "window", [Cell(PLAIN.text(length)) for length in summary[names.WINDOW_LENGTH_S]]))
    return Section("Requests", "", "", [line for line in lines if line is not None])


def server(loads: Sequence[ServerLoad]) -> list[Section]:
    """What the server said of itself in each step's window; nothing where it said nothing."""
    kinds = (
        ("running, mean", "", [load.running for load in loads], "", PLAIN),
        ("waiting, mean", "", [load.waiting for load in loads], "", PLAIN),
        ("KV cache, most", "%", [load.kv_cache for load in loads], SERVER_CACHE, PERCENT),
        ("preemptions", "", [load.preemptions for load in loads], SERVER_CACHE, PLAIN),
    )
    lines = [
        Line(label, unit, term, [Cell(scale.text(x)) for x in values]) for label, unit, values, term, scale in kinds
    ]
    shown = _present(lines)
    return [Section("Server, by its own words", "", SERVER_REQUESTS, shown)] if shown else []
