"""What is in a run's files but is not the run's: rows that are there twice, and requests of another time."""

import dataclasses
from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.cells import MICRO
from analysis.chunks import Chunks
from analysis.load import Run
from analysis.wording import things

SAME = ["request_id", "worker", "sent_us", "ended_us", "outcome"]  # rows alike in these are copies of one
BEFORE_S = 600.0  # the preflight, and a model that is slow to wake, come before the run
AFTER_S = 60.0  # answers are waited for


def without_copies(run: Run) -> Run:
    """`run` with every request and every step once, and a note on what was left out or seems strange."""
    requests, steps = run.requests, run.steps.drop_duplicates()
    copies = (requests.duplicated(SAME) & requests.request_id.notna()).to_numpy()
    chunks = run.chunks
    if copies.any():
        requests, chunks = requests[~copies].reset_index(drop=True), _only(chunks, ~copies)
    notes = [*run.notes, *_left_out(int(copies.sum()), len(run.steps) - len(steps)), *_strays(run, requests)]
    return dataclasses.replace(run, requests=requests, chunks=chunks, steps=steps, notes=tuple(notes))


def _only(chunks: Chunks, kept: np.ndarray) -> Chunks:
    of = np.repeat(kept, chunks.per_request)
    start = np.concatenate(([0], chunks.per_request[kept].cumsum()))
    return Chunks(chunks.at_us[of], start, None if chunks.tokens is None else chunks.tokens[of])


def _left_out(requests: int, steps: int) -> Iterator[str]:
    for count, noun in ((requests, "request"), (steps, "step")):
        if count:
            verbs = ("was", "counts") if count == 1 else ("were", "count")
            yield f"{things(count, noun)} {verbs[0]} there twice and {verbs[1]} once"


def _strays(run: Run, requests: pd.DataFrame) -> Iterator[str]:
    """Requests sent long before the run, or after it; none where the run does not say when it was."""
    first_s, last_s = run.info.get("started_at"), run.info.get("ended_at")
    early = 0 if first_s is None else int((requests.sent_us < (first_s - BEFORE_S) * MICRO).sum())
    late = 0 if last_s is None else int((requests.sent_us > (last_s + AFTER_S) * MICRO).sum())
    if early or late:
        yield f"{things(early + late, 'request')} of another time: another run's, or of a client whose clock is off"
