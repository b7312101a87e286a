"""What the server's own figures add to the findings: its queue and its KV cache at the bend, and signs of trouble."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import names
from analysis.finding import Finding, FindingKind, Number, Severity
from analysis.phase import Phase
from analysis.server_state import ServerLoad, restarted
from analysis.wording import counted, number, percent, things

FULL = 0.95  # of the KV cache: beyond it a request that grows finds no place
EMPTY = 0.5  # waiting requests on average: fewer are those that come and go
OTHERS = 1.25  # tokens that the server counts, as a factor of those that arrived here: beyond it others use it too
NOT_RECORDED = "Whether its KV cache was full is unknown: the server's own figures were not recorded."


def cited(before: ServerLoad, after: ServerLoad, phase: Phase) -> str:
    """Sentences on the levels before and after a bend, to stand behind what the times say."""
    if not after.known:
        return NOT_RECORDED
    return " ".join([*_queue(before, after, phase), *_cache(after)])


def _queue(before: ServerLoad, after: ServerLoad, phase: Phase) -> Iterator[str]:
    if math.isnan(after.waiting):
        return
    compared = "" if math.isnan(before.waiting) else f" ({_many(before.waiting)} before the bend)"
    at_work = "" if math.isnan(after.running) else f" while it computed {_many(after.running)}"
    elsewhere = ": they wait before it, in a proxy, say" if phase is Phase.QUEUE and after.waiting < EMPTY else ""
    yield f"The server says that {_many(after.waiting)} waited in its queue on average{compared}{at_work}{elsewhere}."


def at(users: int, loads: Sequence[ServerLoad], summary: pd.DataFrame) -> ServerLoad:
    """The load at a level; that of the last of several steps with as many users."""
    found = [load for load, of in zip(loads, summary[names.TARGET_USERS], strict=True) if of == users and load.known]
    return found[-1] if found else ServerLoad()


def _many(requests: float) -> str:
    return "none" if requests == 0 else number(requests)


def _cache(load: ServerLoad) -> Iterator[str]:
    if math.isnan(load.kv_cache):
        yield "Whether its KV cache was full is unknown: it does not say."
        return
    binds = load.kv_cache >= FULL or load.preemptions > 0
    so = ": no room was left" if binds else ", so that does not bind"
    yield f"Its KV cache was {percent(load.kv_cache)} full at most{so}."


def told(
    loads: Sequence[ServerLoad], server: pd.DataFrame, steps: pd.DataFrame, summary: pd.DataFrame
) -> Iterator[Finding]:
    """Signs that hold without a bend: a full cache, a server started anew, one that serves others too.

    loads: `server_state.in_windows`; server, steps: as of `load`, `steady.windows`; summary: a row a step.
    """
    rows = list(zip(loads, summary.to_dict("records"), strict=True))
    full = [(load, row) for load, row in rows if load.kv_cache >= FULL or load.preemptions > 0]
    if full:
        preempted = sum(load.preemptions for load, _ in full if load.preemptions > 0)
        lost = (
            f", and {things(int(preempted), 'time')} a request lost its place in it and was computed anew"
            if preempted
            else ""
        )
        most = max(load.kv_cache for load, _ in full)
        users = sorted({int(row[names.TARGET_USERS]) for _, row in full})
        numbers: dict[str, Number] = {
            "kv_cache_ratio": None if math.isnan(most) else most,
            "preemptions": float(preempted),
        }
        text = f"The server's KV cache is full at {counted(users)} (up to {percent(most)}){lost}."
        yield Finding(FindingKind.PHASE, text, numbers, Severity.WARNING)
    if restarted(server, steps):
        text = "The server was started anew during the run: its counts began again at 0."
        yield Finding(FindingKind.DISTRUST, text, {}, Severity.WARNING)
    factor = _of_ours(rows)
    if factor > OTHERS:
        text = (
            f"The server counts {number(factor)} times the output tokens that arrived here: it serves others too, or "
            "generates what it does not send."
        )
        yield Finding(FindingKind.DISTRUST, text, {"factor": factor}, Severity.WARNING)


def _of_ours(rows: Sequence[tuple[ServerLoad, Mapping[Any, Any]]]) -> float:
    """Output tokens by the server's count, over those that arrived, of all windows: some servers count a request at its
    end only, which a single window would show as more or less. NaN: unknown.
    """
    known = [(load, row) for load, row in rows if row[names.OUTPUT_TOKENS_PER_S] > 0 and load.generated_per_s >= 0]
    arrived = sum(row[names.OUTPUT_TOKENS_PER_S] * row[names.WINDOW_LENGTH_S] for _, row in known)
    return (
        sum(load.generated_per_s * row[names.WINDOW_LENGTH_S] for load, row in known) / arrived if known else math.nan
    )


def stalls(after: ServerLoad) -> str:
    """What its count of preemptions says of answers that pause."""
    if math.isnan(after.preemptions):
        return "The server's own figures would tell."
    if after.preemptions:
        return f"The server counts {things(int(after.preemptions), 'preemption')} there."
    return "The server preempted none there, so it is the prefill."
