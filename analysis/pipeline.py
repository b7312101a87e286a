"""The one way through: a run folder → its requests, windows and summary, judged."""

import dataclasses
from pathlib import Path

import pandas as pd

from analysis.copies import without_copies
from analysis.health import judge
from analysis.load import Run, load
from analysis.recount import recounted
from analysis.steady import derive, place, windows
from analysis.summary import summarise
from analysis.unfinished import with_unfinished


@dataclasses.dataclass(frozen=True, slots=True)
class Analysis:
    """Everything the table, the curve and later stages read."""

    run: Run
    steps: pd.DataFrame  # steady.windows
    requests: pd.DataFrame  # one row a request, derived metrics in µs
    summary: pd.DataFrame  # one row a step, columns as in names


def read(folder: Path, tokenizer: str | None = None) -> Run:
    """What the files say, each thing once, the step that the run broke off in included. Raises as `analyse`."""
    return recounted(with_unfinished(without_copies(load(folder))), tokenizer)


def analyse(folder: Path, tokenizer: str | None = None) -> Analysis:
    """Raises RunError where the folder cannot be read. tokenizer: as of `recount.recounted`, which may raise UsageError."""
    run = read(folder, tokenizer)
    steps = windows(run.steps, run.info)
    requests = derive(place(run.requests, run.chunks, steps), run.chunks)
    summary = summarise(requests, run.chunks, steps, run.info.get("slos"))
    return Analysis(run, steps, requests, judge(requests, run.chunks, steps, summary, run.health, run.info))
