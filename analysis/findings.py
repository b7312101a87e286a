"""Findings in words: what this server can carry, where it bends, which phase, what to distrust.

Rules, each with its numbers; nothing is claimed without evidence. The same files give the same findings.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import names, server_words
from analysis.bend_words import bent, bound, scaled
from analysis.capacity import Capacity, capacity
from analysis.capacity_words import carried, replicated
from analysis.cost import Prices, costs, waste
from analysis.cost_words import costed
from analysis.distrust import of_law, of_requests, of_run, of_steps
from analysis.evidence import levels
from analysis.finding import Finding, FindingKind, Severity
from analysis.judged import Judged, Met
from analysis.knee import Knee, curve, knee
from analysis.littles_law import check
from analysis.phase import binding
from analysis.pipeline import Analysis
from analysis.replicas import HEADROOM
from analysis.server_state import in_windows
from analysis.usl import fit
from analysis.wording import counted, figure, interval, limit, users
from tokenswarm.record import Outcome


def findings(
    analysis: Analysis,
    slos: Mapping[str, Any] | None = None,
    prices: Prices | None = None,
    count: int | None = None,
    headroom: float = HEADROOM,
) -> list[Finding]:
    """In the order of FindingKind. With a single load, or without evidence, the first finding says so and only doubts
    follow.

    slos: name → limit in base units; None: those of the run. count, headroom: users to be carried, for `replicas`.
    """
    summary = analysis.summary
    found = capacity(summary, analysis.run.info.get("slos") if slos is None else slos)
    nothing = _without_evidence(analysis, found)
    if nothing is not None:
        return [nothing, *_doubts(analysis, found)]
    return list(_all(analysis, found, prices, count, headroom))


def _all(
    analysis: Analysis, found: Capacity, prices: Prices | None, count: int | None, headroom: float
) -> Iterator[Finding]:
    summary = analysis.summary
    bend, law = knee(summary), list(of_law(check(summary)))
    loads = in_windows(analysis.run.server, analysis.steps)
    yield from carried(found, summary)
    yield from bent(bend, curve(summary))
    if bend is not None:
        servers = server_words.at(bend.before.users, loads, summary), server_words.at(bend.after.users, loads, summary)
        yield from bound(binding(summary, bend, client_cpu(analysis, bend)), servers)
    yield from _of_server(analysis, FindingKind.PHASE)
    scaling = fit(summary)
    if scaling is not None:
        yield scaled(scaling)
    yield from replicated(found, count, headroom)
    yield from (one for one in law if one.kind is FindingKind.LAW)
    if prices is not None:
        carries = None if found.largest is None else found.largest.users
        yield from costed(costs(summary, prices, waste(analysis.requests, analysis.steps)), carries)
    yield from _doubts(analysis, found, [one for one in law if one.kind is FindingKind.DISTRUST])


def _of_server(analysis: Analysis, kind: FindingKind) -> Iterator[Finding]:
    loads = in_windows(analysis.run.server, analysis.steps)
    signs = server_words.told(loads, analysis.run.server, analysis.steps, analysis.summary)
    yield from (one for one in signs if one.kind is kind)


def _doubts(analysis: Analysis, found: Capacity, law: Sequence[Finding] = ()) -> Iterator[Finding]:
    yield from of_steps(analysis.summary)
    yield from law
    yield from _of_server(analysis, FindingKind.DISTRUST)
    yield from of_requests(analysis.requests)
    yield from of_run(analysis.run.info, len(analysis.steps), found.unjudged)


def _without_evidence(analysis: Analysis, found: Capacity) -> Finding | None:
    summary, measured = analysis.summary, levels(analysis.summary)
    if not len(summary):
        return _only("No step was recorded: nothing can be said of this server.", 0)
    answered = int((analysis.requests.outcome == Outcome.OK).sum())
    if not len(analysis.requests):
        return _only("No request was recorded: nothing can be said of this server.", 0)
    if answered == 0:
        text = (
            f"None of the requests ({len(analysis.requests)}) was answered: nothing can be said of this server's speed."
        )
        return _only(text, 0)
    if not len(measured):
        return _only("Every step is invalid: nothing is said of this server.", 0)
    if len(measured) == 1:
        return _one_load(summary, found, int(measured[names.TARGET_USERS].iloc[0]))
    return None


def _only(text: str, steps: int) -> Finding:
    return Finding(FindingKind.DISTRUST, text, {"steps": float(steps)}, Severity.WARNING)


def _one_load(summary: pd.DataFrame, found: Capacity, count: int) -> Finding:
    """One load tells whether it meets the objectives, and nothing else."""
    others = sorted({int(n) for n in summary[names.TARGET_USERS]} - {count})
    rest = f" ({counted(others)}: invalid)" if others else ""
    text = (
        f"Only one load is evidence, {users(count)}{rest}: where this server bends and what it can carry is not shown."
    )
    for one in found.steps[0].objectives if found.steps else ():
        text += f" {limit(one.objective)}: {_told(one)}."
    return _only(text, 1)


def _told(one: Judged) -> str:
    if one.met is Met.UNKNOWN:
        return Met.UNKNOWN.value
    metric = one.objective.metric
    return f"{one.met.value}, {figure(metric, one.value)}{interval(metric, one.low, one.high)}"


def client_cpu(analysis: Analysis, bend: Knee) -> float:
    """Mean share of one core of the busiest client process in the windows after the bend; NaN: not recorded."""
    steps, health = analysis.steps, analysis.run.health
    means = [
        health[(health.us > step.begin_us) & (health.us <= step.end_us)].groupby("worker").cpu_ratio.mean().max()
        for step in steps[steps.target_users == bend.after.users].itertuples()
    ]
    return float(pd.Series(means, dtype=float).max())
