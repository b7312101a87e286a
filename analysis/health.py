"""The verdict on each step: may its figures be believed? Reasons in words; the worst one decides.

Thresholds are constants beside what they judge, each with its reason. What the files do not show (no health file) is not
held against a step.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis import names
from analysis.answers import ERRORS as ERRORS
from analysis.answers import impossible_rows, of_answers
from analysis.cells import MICRO
from analysis.chunks import Chunks
from analysis.grade import Finding
from analysis.grade import Verdict as Verdict
from analysis.instrument import of_arrival, of_client, of_schedule, of_workers
from analysis.printable import printable
from analysis.recount import COUNTED
from analysis.steady import during
from analysis.workload_check import of_workload, told_tokens

REASON_SEPARATOR = "; "
READ = [
    "worker",
    "due_us",
    "sent_us",
    "end_us",
    "scheduled_us",
    "stamp",
    "lag_max_us",
    "coalesced",
    "n_chunks",
    "cached_tokens",
    "prompt_tokens",
    "output_tokens",
    "tokens_from",
]


def judge(
    requests: pd.DataFrame,
    chunks: Chunks,
    steps: pd.DataFrame,
    summary: pd.DataFrame,
    health: pd.DataFrame,
    info: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """`summary` with verdict and reasons after the step's load. Frames as of `steady`, `summary` and `load`.

    info: run.json; what was asked for is no fault of a step.
    """
    info = info or {}
    conditions = info.get("conditions") or {}
    told = told_tokens(requests, chunks)
    impossible = impossible_rows(requests, chunks)
    requests = requests[[name for name in (*READ, COUNTED) if name in requests]]
    health = _of_load(health, steps)
    clients = (info.get("clients") or {}).keys()
    lost = clients - set(requests.worker.dropna().unique()) - set(health.worker.unique()) if len(health) else set()
    verdicts, reasons = [], []
    for step, row in zip(steps.itertuples(), summary.to_dict("records"), strict=True):
        shown = {str(name): value for name, value in row.items()}
        rows = _near(step, requests)
        near = requests.iloc[rows]
        findings = list(_no_window(step)) or [
            *_unfinished(step, shown),
            *_of_step(step, shown, near, impossible[rows], told[rows], conditions),
            *_of_instrument(step, shown, near, health),
            *of_workers(step, health, lost),
        ]
        worst = max((verdict for verdict, _ in findings), key=list(Verdict).index, default=Verdict.VALID)
        findings.sort(key=lambda finding: -list(Verdict).index(finding[0]))
        verdicts.append(worst.value)
        reasons.append(printable(REASON_SEPARATOR.join(text for _, text in findings)))
    judged = summary.copy()
    after = list(judged.columns).index(names.OBSERVED_CONCURRENCY) + 1 if len(judged) else 0
    judged.insert(after, names.VERDICT, verdicts)
    judged.insert(after + 1, names.REASONS, reasons)
    return judged


def _of_load(health: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """`health` without processes that were done before the first step, such as the preflight."""
    last_us = health.groupby("worker").us.transform("max")
    return health[last_us >= steps.started_us.min()]


def _no_window(step: Any) -> Iterator[Finding]:
    if np.isnan(step.begin_us):
        why = "its users were never all up" if np.isnan(step.settled_us) else "it ended within its warm-up"
        if not step.in_order:
            why = "its instants are out of order"
        elif not step.finished:
            why = "the run broke off in it before each of its users was answered after the warm-up"
        yield Verdict.INVALID, f"no steady window: {why}"


def _unfinished(step: Any, row: Mapping[str, Any]) -> Iterator[Finding]:
    if not step.finished:
        length_s, planned_s = row[names.WINDOW_LENGTH_S], step.planned_us / MICRO
        text = f"the run broke off in this step: its window ends after {length_s:.0f} s instead of {planned_s:.0f} s, "
        yield Verdict.SUSPECT, f"{text}where requests begin that left no row"


def _near(step: Any, requests: pd.DataFrame) -> slice:
    return during(requests, step.begin_us, step.end_us)


def _due(requests: pd.DataFrame, step: Any) -> pd.Series:
    """Which requests were sent in the window; in an open loop, those due in it."""
    return (requests.due_us >= step.begin_us) & (requests.due_us < step.end_us)


def _of_step(
    step: Any,
    row: Mapping[str, Any],
    requests: pd.DataFrame,
    impossible: np.ndarray,
    told: np.ndarray,
    conditions: Mapping[str, Any],
) -> Iterator[Finding]:
    if step.short and step.finished:
        length_s, planned_s = row[names.WINDOW_LENGTH_S], step.planned_us / MICRO
        yield Verdict.SUSPECT, f"the step was cut short: a window of {length_s:.0f} s instead of {planned_s:.0f} s"
    due = _due(requests, step)
    yield from of_answers(row, requests[due], impossible[due.to_numpy()])
    yield from of_workload(requests[due], told[due.to_numpy()], conditions)


def _of_instrument(
    step: Any, row: Mapping[str, Any], requests: pd.DataFrame, health: pd.DataFrame
) -> Iterator[Finding]:
    due = requests[_due(requests, step)]
    watch = health[(health.us > step.begin_us) & (health.us <= step.end_us)]
    yield from of_arrival(row, due, watch)
    yield from of_client(step, row, watch)
    yield from of_schedule(row, due)
