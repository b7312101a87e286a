"""Several runs beside each other: what differs in their conditions first, then their figures at equal users."""

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis import names, pipeline, report_facts
from analysis.health import Verdict
from analysis.pipeline import Analysis
from analysis.report_tables import PERCENT
from analysis.scale import Scale
from analysis.table import PLAIN
from tokenswarm.metrics import METRICS, Better

FILE = "compare.html"
VERSION = "definitions_version"
OF_CLIENT = ("host", "cores", "seed", "definitions version", "version of tokenswarm")


@dataclasses.dataclass(frozen=True, slots=True)
class Runs:
    """`labels`: one a run, all different. The first run is the base of the others' ratios."""

    analyses: list[Analysis]
    labels: list[str]


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """A condition that is not the same in all runs; None: nobody said."""

    name: str
    values: list[str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """`ratio`: to the base, "" where there is none; `tone`: better, worse, or "" where no difference was shown."""

    text: str
    interval: str = ""
    ratio: str = ""
    tone: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One statistic at each number of users: `rows` are (users, a cell a run)."""

    label: str
    unit: str
    metric: str
    rows: list[tuple[int, list[Cell]]]


def compared(folders: Sequence[Path]) -> Runs:
    """Raises RunError where a folder cannot be read."""
    analyses = [pipeline.analyse(folder) for folder in folders]
    labels = [str(one.run.info.get("run_id") or folder.name) for one, folder in zip(analyses, folders, strict=True)]
    if len(set(labels)) < len(labels):
        labels = [folder.name for folder in folders]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({number})" for number, label in enumerate(labels, start=1)]
    return Runs(analyses, labels)


def differences(runs: Runs) -> list[Difference]:
    """Different metric definitions first: figures under them are not the same thing."""
    infos = [dict(_conditions(one)) for one in runs.analyses]
    found = []
    for name in dict.fromkeys(itertools.chain.from_iterable(infos)):
        values = [info.get(name) for info in infos]
        if len(set(values)) > 1:
            found.append(Difference(name, values))
    return sorted(found, key=lambda one: one.name != VERSION.replace("_", " "))


def _conditions(one: Analysis) -> list[tuple[str, str | None]]:
    client = [pair for pair in report_facts.setup(one.run.info) if pair[0] in OF_CLIENT]
    return [*client, *report_facts.conditions(one.run.info)]


def unlike_definitions(runs: Runs) -> str | None:
    """What to say where the runs were recorded under different definitions of the metrics."""
    versions = [one.run.info.get(VERSION) for one in runs.analyses]
    if len(set(versions)) == 1:
        return None
    said = ", ".join(f"{label}: {version}" for label, version in zip(runs.labels, versions, strict=True))
    return f"Recorded under different metric definitions ({said}). All figures here are made anew by the present ones."


def figures(runs: Runs) -> list[Figure]:
    """The main figures at every number of users that two runs or more have held."""
    steps = [_by_users(one.summary) for one in runs.analyses]
    counts = [users for one in steps for users in one.index]
    shared = sorted({users for users in counts if counts.count(users) > 1})
    made = [_figure(steps, shared, metric, which) for metric, which in _main()]
    return [one for one in made if one is not None]


def _main() -> list[tuple[str, str]]:
    """(metric, statistic); "" for figures of the whole step."""
    latencies = itertools.product((names.TTFT, names.ITL, names.TPOT, names.E2E), ("p50", "p95"))
    rates = (names.OUTPUT_TOKENS_PER_S, names.REQUESTS_PER_S, names.GOODPUT_PER_S, names.ERROR_RATIO)
    return [*latencies, (names.USER_TOKENS_PER_S, "p50"), *((rate, "") for rate in rates)]


def _by_users(summary: pd.DataFrame) -> pd.DataFrame:
    """One row for each number of users, the first step that held it."""
    if not len(summary):
        return pd.DataFrame()
    return summary.drop_duplicates(names.TARGET_USERS).set_index(names.TARGET_USERS)


def column(metric: str, which: str, bound: str = "") -> str:
    """The summary's column of a statistic; of a figure of the whole step where `which` is ""."""
    if which:
        return names.stat(metric, which, bound)
    return names.stat(metric, bound) if bound else metric


def _figure(steps: list[pd.DataFrame], shared: Sequence[int], metric: str, which: str) -> Figure | None:
    values = np.array([[_value(one, users, column(metric, which)) for one in steps] for users in shared])
    if not np.isfinite(values).any():
        return None
    of = METRICS[metric]
    scale = Scale.of_seconds(values.ravel()) if of.unit == "s" else PERCENT if of.unit == "ratio" else PLAIN
    rows = [
        (users, [_cell(steps, index, users, metric, which, scale) for index in range(len(steps))]) for users in shared
    ]
    unit = scale.unit or of.unit.replace("1/s", "requests/s")
    return Figure(f"{of.label} {which}".strip(), unit, metric, rows)


def _value(step: pd.DataFrame, users: int, name: str) -> float:
    return float(step[name].to_dict()[users]) if users in step.index and name in step else np.nan


def _cell(steps: list[pd.DataFrame], index: int, users: int, metric: str, which: str, scale: Scale) -> Cell:
    name, bounds = column(metric, which), [column(metric, which, bound) for bound in (names.LOW, names.HIGH)]
    value, base = _value(steps[index], users, name), _value(steps[0], users, name)
    low, high = (_value(steps[index], users, bound) for bound in bounds)
    interval = f"{scale.text(low)}–{scale.text(high)}" if np.isfinite(value) and np.isfinite(low + high) else ""
    if index == 0 or not np.isfinite(value) or not np.isfinite(base) or base == 0:
        return Cell(scale.text(value), interval)
    base_low, base_high = (_value(steps[0], users, bound) for bound in bounds)
    believed = all(_is_believed(one, users) for one in (steps[0], steps[index]))
    tone = _tone(metric, value > base) if believed and (low > base_high or high < base_low) else ""
    sign = "" if tone or not interval else "~ "
    return Cell(scale.text(value), interval, f"{sign}× {value / base:.2f}", tone)


def _is_believed(step: pd.DataFrame, users: int) -> bool:
    return bool(step.at[users, names.VERDICT] != Verdict.INVALID)


def _tone(metric: str, is_higher: bool) -> str:
    better = METRICS[metric].better
    if better is None:
        return ""
    return "better" if is_higher == (better is Better.HIGHER) else "worse"
