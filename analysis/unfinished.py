"""The step that a run broke off in: it has no row in steps.csv, since that is written when a step ends.

When it began is known: the step before ended then. It is measured as far as every request has a row. What was in flight
when the client was killed left none; but a user of a closed loop has one request at a time, so that its record is whole
up to the end of its last row, and that of the step up to the earliest of these ends.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import MICRO
from analysis.load import Run
from analysis.steady import FINISHED
from tokenswarm.run_info import RunState

BROKEN_OFF = (RunState.RUNNING, RunState.FAILED)  # it never said how it ended; or its rows could not be written
STOPPING_US = 2 * MICRO  # after the last step users send on until they are stopped: that is no step


def with_unfinished(run: Run) -> Run:
    """`run`, its steps ending with the one it broke off in, if it did. Steps have the column FINISHED."""
    steps = run.steps.assign(**{FINISHED: True})
    begun = _begun(run)
    if begun is not None:
        steps = pd.concat([steps, pd.DataFrame([begun])], ignore_index=True)
    return dataclasses.replace(run, steps=steps)


def _begun(run: Run) -> dict[str, Any] | None:
    """The row of the step that was begun and has none; its end is that of what is recorded whole."""
    if run.info.get("state") not in BROKEN_OFF:
        return None
    started_us = _end_of_last(run.steps, run.info)
    sent_us = run.requests.sent_us
    if np.isnan(started_us) or not (sent_us >= started_us + STOPPING_US).any():
        return None
    first_us = min(started_us, float(run.steps.started_us.min())) if len(run.steps) else started_us
    users = _users(run, first_us)
    target = _target(run, started_us)
    if not target:
        return None
    # those who ended last: in a step of fewer users than before the others were stopped
    seen = users.nlargest(target, "whole_us")
    # requests on a schedule do not wait for each other: which of them left no row is not known
    all_seen = len(seen) == target and run.requests.scheduled_us.isna().all()
    settled_us = max(started_us, float(seen.first_us.max())) if all_seen else np.nan
    ended_us = float(seen.whole_us.min()) if all_seen else started_us
    instants = {"started": started_us, "settled": settled_us, "ended": max(started_us, ended_us)}
    number = 1 if run.steps.empty else int(run.steps.step.max()) + 1
    return {
        "step": number,
        "target_users": target,
        **{f"{name}_us": value for name, value in instants.items()},
        **{f"{name}_at": value / MICRO for name, value in instants.items()},
        FINISHED: False,
    }


def _end_of_last(steps: pd.DataFrame, info: Mapping[str, Any]) -> float:
    """Epoch µs: when the last step that has a row ended; before the first, when the run began; NaN: unknown."""
    if len(steps):
        return float(steps.sort_values("started_us").ended_us.iloc[-1])
    return float(info.get("started_at") or np.nan) * MICRO


def _users(run: Run, first_us: float) -> pd.DataFrame:
    """One row a user: when its first request was sent, and up to when its record is whole (epoch µs)."""
    requests = run.requests
    took_us = requests.ended_us.fillna(pd.Series(run.chunks.last_us(), index=requests.index)).fillna(0)
    spans = pd.DataFrame(
        {
            "worker": requests.worker,
            "user": requests.user,
            "first_us": requests.sent_us,
            "whole_us": requests.sent_us + took_us,
        }
    )
    of_load = spans[spans.first_us >= first_us]  # the preflight came before it
    return of_load.groupby(["worker", "user"], dropna=False).agg({"first_us": "min", "whole_us": "max"})


def _target(run: Run, started_us: float) -> int:
    """Users of the step: those of the scenario; of a run by hand, those that sent in it."""
    planned = (run.info.get("scenario") or {}).get("steps") or []
    if planned:
        return int(planned[len(run.steps)]) if len(run.steps) < len(planned) else 0
    of_step = run.requests[run.requests.sent_us >= started_us]
    return len(of_step[["worker", "user"]].drop_duplicates())
