"""How a run ended, in words, and which of its steps were never begun."""

from collections.abc import Mapping
from typing import Any

from analysis.wording import counted
from tokenswarm.run_info import RunState

WORDS = {
    RunState.RUNNING: "This run never said how it ended: it was killed, or it is still going.",
    RunState.INTERRUPTED: "This run was interrupted.",
    RunState.FAILED: "This run failed: it could not record everything.",
}
REST = "Figures are of what was recorded."


def ended(info: Mapping[str, Any]) -> str | None:
    """Two sentences on a run that did not come to its end; None for one that did. info: run.json."""
    state = info.get("state")
    if state in (None, RunState.COMPLETE):
        return None
    return f"{WORDS.get(state, f'This run is {state}.')} {REST}"


def told(info: Mapping[str, Any], steps: int) -> str | None:
    """`ended`, and the users of the steps that were never begun. steps: how many were."""
    state, missing = ended(info), never_begun(info, steps)
    return f"{state} Never begun: {counted(missing)}." if state and missing else state


def never_begun(info: Mapping[str, Any], steps: int) -> list[int]:
    """Users of the scenario's steps that the run did not come to; `steps`: how many it began."""
    planned = (info.get("scenario") or {}).get("steps") or []
    return [int(users) for users in planned[steps:]] if ended(info) else []
