"""What the server can carry, in words: capacity under the objectives, and how many replicas users need."""

from collections.abc import Iterator

import pandas as pd

from analysis import names
from analysis.capacity import Capacity
from analysis.evidence import levels
from analysis.finding import Finding, FindingKind, Number, Severity
from analysis.judged import Judged, Met, StepJudged
from analysis.replicas import replicas
from analysis.wording import counted, figure, interval, limit, listed, number, percent, things, users

EXAMPLE = "--slo ttft_p95=500ms"


def carried(found: Capacity, summary: pd.DataFrame) -> Iterator[Finding]:
    """One finding, and a second where the answer depends on the order of the steps."""
    if not found.steps:
        yield _highest(summary)
        return
    numbers: dict[str, Number] = {
        "users": None if found.largest is None else found.largest.users,
        "concurrency": None if found.largest is None else found.largest.concurrency,
        "missed_users": None if found.first_missed is None else found.first_missed.users,
        "certainty": None if found.largest is None else found.largest.met.value,
    }
    if found.crossing is not None:
        numbers |= {
            "crossing": found.crossing.value,
            "crossing_low": found.crossing.low,
            "crossing_high": found.crossing.high,
            "objective": found.crossing.objective.name,
        }
    text = " ".join([*_meets(found), *_misses(found), *_left_open(found)])
    sure = found.largest is not None and found.largest.met is Met.SURE
    yield Finding(FindingKind.CAPACITY, text, numbers, Severity.INFO if sure else Severity.WARNING)
    if found.again and found.first_missed is not None:
        again = counted(step.users for step in found.again)
        miss = "misses" if found.first_missed.users == 1 else "miss"
        text = (
            f"The objectives are met again at {again}, although {users(found.first_missed.users)} {miss} them: "
            "latency does not simply grow with load here, and the smaller answer is given."
        )
        counts = {f"users_{i + 1}": float(step.users) for i, step in enumerate(found.again)}
        yield Finding(FindingKind.CAPACITY, text, counts, Severity.WARNING)


def _highest(summary: pd.DataFrame) -> Finding:
    points = levels(summary)
    best = int(points[names.OUTPUT_TOKENS_PER_S].to_numpy().argmax())
    at, top = int(points[names.TARGET_USERS].iloc[best]), float(points[names.OUTPUT_TOKENS_PER_S].iloc[best])
    largest = "the largest step" if at == summary[names.TARGET_USERS].max() else "the largest step that is not invalid"
    last = f", {largest}: more may be possible" if at == points[names.TARGET_USERS].max() else ""
    text = (
        f"The highest output was {number(top)} tokens/s, at {users(at)}{last}. Which load is still good enough is not "
        f"judged without objectives (such as {EXAMPLE})."
    )
    return Finding(FindingKind.CAPACITY, text, {"users": float(at), names.OUTPUT_TOKENS_PER_S: top})


def _s(count: int) -> str:
    """The end of a verb whose subject is `count` users."""
    return "s" if count == 1 else ""


def _limits(step: StepJudged) -> str:
    return listed(limit(one.objective) for one in step.objectives)


def _meets(found: Capacity) -> Iterator[str]:
    step = found.largest
    if step is None:
        yield f"No step is shown to meet {_limits(found.steps[0])}."
        return
    doubtful = [one.objective.name for one in step.objectives if one.met is not Met.SURE]
    doubt = f"; not for sure, since the interval of {listed(doubtful)} reaches beyond the limit" if doubtful else ""
    if doubtful and all(pd.isna(one.low) for one in step.objectives if one.met is not Met.SURE):
        doubt = f"; how surely is unknown, since {listed(doubtful)} has no interval"
    who = f"{users(step.users).capitalize()} ({number(step.concurrency)} in flight)"
    yield f"{who} keep{_s(step.users)} to {_limits(step)}{doubt}."


def _misses(found: Capacity) -> Iterator[str]:
    step = found.first_missed
    if step is None:
        return
    worst = step.worst()
    yield f"{users(step.users).capitalize()} do{'es' if step.users == 1 else ''} not: {_beyond(worst)}."
    if found.crossing is None:
        return
    low, high = found.crossing.low, found.crossing.high
    ends = f"{'below the smallest step' if low is None else number(low)} to "
    ends += "beyond the largest step" if high is None else number(high)
    yield (
        f"Between the two, by a straight line, {found.crossing.objective.name} reaches its limit at "
        f"{number(found.crossing.value)} requests in flight (interval {ends})."
    )


def _beyond(worst: Judged) -> str:
    metric = worst.objective.metric
    if pd.isna(worst.value):
        return f"{worst.objective.name} is withheld, but a milder percentile is beyond its limit already"
    surely = "" if worst.met is Met.MISSED_SURE else ", not for sure"
    return f"{worst.objective.name} is {figure(metric, worst.value)}{interval(metric, worst.low, worst.high)}{surely}"


def _left_open(found: Capacity) -> Iterator[str]:
    unknown = [step for step in found.steps if step.met is Met.UNKNOWN]
    if unknown:
        names_of = sorted({one.objective.name for step in unknown for one in step.objectives if one.met is Met.UNKNOWN})
        counts = counted(step.users for step in unknown)
        yield f"Nothing is shown at {counts}, where {listed(names_of)} {'are' if len(names_of) > 1 else 'is'} withheld."
    if found.no_evidence:
        which = "steps" if len(found.no_evidence) > 1 else "step"
        yield f"No evidence, since invalid: the {which} with {counted(found.no_evidence)}."
    if found.largest is not None and found.first_missed is None:
        measured = max(step.users for step in found.steps)
        yield f"No valid step misses: the limit lies beyond, and was not found (largest valid step: {users(measured)})."


def replicated(found: Capacity, count: int | None, headroom: float) -> Iterator[Finding]:
    """How many replicas `count` users need; without a count, what one replica may be loaded with."""
    if found.largest is None:
        return
    one = found.largest.users
    numbers: dict[str, Number] = {"users_per_replica": float(one), "headroom": headroom}
    if count is None:
        share = number(one * (1 - headroom))
        text = (
            f"With {percent(headroom)} headroom one replica carries {share} user{'' if share == '1' else 's'}: "
            f"N users need N / {share} replicas, rounded up."
        )
        yield Finding(FindingKind.REPLICAS, text, numbers)
        return
    answer = replicas(found, count, headroom)
    if answer is None:
        return
    most = "at most " if answer.at_most else ""
    text = (
        f"{users(count).capitalize()} need{_s(count)} {most}{things(answer.count, 'replica')}, each loaded "
        f"to {percent(1 - headroom)} of the {users(one)} that it was measured to carry ({percent(headroom)} headroom)."
    )
    yield Finding(FindingKind.REPLICAS, text, numbers | {"users": float(count), "replicas": float(answer.count)})
