"""The gate: a run against a baseline, budget by budget. What is missing, damaged or not comparable never passes."""

import dataclasses
import enum
import math
from collections.abc import Collection, Sequence
from pathlib import Path

from analysis import baseline as baselines
from analysis import budget as budgets
from analysis import comparable, pipeline, quality
from analysis.baseline import Baseline, RunKept
from analysis.budget import Budget
from analysis.comparable import Comparison
from analysis.gate_errors import GateUsage, NoEvidence
from analysis.kept import steps
from analysis.spread import ASSUMED, Spread
from analysis.verdicts import Judged, Verdict, judge, judge_quality, worst
from tokenswarm.run_info import RunState

# Figures that are shown beside the gating ones, and gate nothing.
SHOWN = (
    *(
        "ttft_p50:+10%",
        "ttft_p95:+10%",
        "tpot_p50:+10%",
        "tpot_p95:+10%",
        "itl_p95:+10%",
        "e2e_p50:+10%",
        "e2e_p95:+10%",
    ),
    *("output_tokens_per_s:-10%", "requests_per_s:-10%", "error_ratio:+1pp", "truncated_ratio:+5pp"),
)
SHOWN_QUALITY = "quality_exact_match:-50pp"


class Exit(enum.IntEnum):
    """Exit codes of the gate."""

    PASS = 0
    FAIL = 1
    WRONG_USE = 2
    INCONCLUSIVE = 3
    INVALID = 4  # or no evidence


EXITS = {
    Verdict.PASS: Exit.PASS,
    Verdict.FAIL: Exit.FAIL,
    Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE,
    Verdict.INVALID: Exit.INVALID,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the gate was asked: `users` names the steps that gate, none means all of the baseline's."""

    budgets: Sequence[Budget]
    quality_budgets: Sequence[Budget] = ()
    allow: Collection[str] = ()
    users: tuple[int, ...] = ()
    spread: float | None = None  # run-to-run; None: as calibrated, as the baseline's runs show, or as assumed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What came out. `refusals`: why nothing was judged; no figure is compared then."""

    verdict: Verdict
    baseline_name: str
    baseline: Baseline | None
    run: RunKept | None
    comparison: Comparison | None = None
    judged: tuple[Judged, ...] = ()  # gating
    shown: tuple[Judged, ...] = ()
    refusals: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    comparisons: int = 0  # of speed: the number that failing is corrected for

    @property
    def exit_code(self) -> Exit:
        return EXITS[self.verdict]


def keep(folder: Path) -> RunKept:
    """The run in `folder`, as much of it as the gate needs. Raises RunError, NoEvidence."""
    found = pipeline.analyse(folder)
    return RunKept(baselines.about(found.run.info), tuple(steps(found)), quality.read(folder))


def refused(name: str, why: Sequence[str], baseline: Baseline | None = None, run: RunKept | None = None) -> Gate:
    """No evidence, so no pass."""
    return Gate(verdict=Verdict.INVALID, baseline_name=name, baseline=baseline, run=run, refusals=tuple(why))


def hold(baseline: Baseline, run: RunKept, asked: Asked) -> Gate:
    """The gate's outcome. Raises GateUsage where a name that was allowed or a step that was asked for does not exist."""
    comparison = comparable.compare(run, baseline.runs, _with_steps(asked))
    _check_names(comparison, asked, baseline)
    why = [str(one) for one in comparison.refused]
    if run.identity in {one.identity for one in baseline.runs}:
        why.append(
            f"{run.run_id} is itself a run of the baseline '{baseline.name}': no run can be judged against itself. Keep the "
            "baseline from what is released, and read it from its branch (--base-ref)"
        )
    state = run.info.get("state")
    if state not in (None, RunState.COMPLETE, RunState.INTERRUPTED):
        why.append(f"the run is {state}: it did not come to its end")
    if why:
        found = refused(baseline.name, why, baseline, run)
        return dataclasses.replace(found, comparison=comparison)
    keys = _keys(baseline, asked)
    comparisons = max(1, len(keys) * len(asked.budgets))
    judged = _speed(baseline, run, asked, keys, asked.budgets, comparisons, gating=True)
    names = {one.name for one in asked.budgets}
    others = [one for one in map(budgets.parse_one, SHOWN) if one.name not in names]
    shown = _speed(baseline, run, asked, keys, others, comparisons, gating=False)
    of_quality, more_notes = _quality(baseline, run, asked)
    judged += [one for one in of_quality if one.gating]
    shown += [one for one in of_quality if not one.gating]
    return Gate(
        verdict=worst([one.verdict for one in judged]),
        baseline_name=baseline.name,
        baseline=baseline,
        run=run,
        comparison=comparison,
        judged=tuple(judged),
        shown=tuple(shown),
        notes=(*_notes(baseline, asked), *more_notes),
        comparisons=comparisons,
    )


def _with_steps(asked: Asked) -> set[str]:
    """Who names the steps that gate has decided which count."""
    return {*asked.allow, *([comparable.STEPS] if asked.users else [])}


def _check_names(comparison: Comparison, asked: Asked, baseline: Baseline) -> None:
    if comparison.unused:
        known = sorted({*comparable.conditions(baseline.runs[-1]), comparable.QUALITY_PROMPTS})
        raise GateUsage(f"--allow {', '.join(comparison.unused)}: nothing is called so; there are {', '.join(known)}")


def _keys(baseline: Baseline, asked: Asked) -> list[tuple[int, int]]:
    """The steps that gate: all that any run of the baseline has, or those asked for."""
    keys = list(dict.fromkeys(step.key for run in baseline.runs for step in run.steps))
    if not asked.users:
        if not keys:
            raise NoEvidence(f"The baseline '{baseline.name}' holds no step.")
        return keys
    missing = set(asked.users) - {users for users, _ in keys}
    if missing:
        there = ", ".join(str(users) for users, _ in keys)
        raise GateUsage(f"--at {', '.join(map(str, sorted(missing)))}: the baseline has no such step; it has {there}")
    return [key for key in keys if key[0] in asked.users]


def _speed(
    baseline: Baseline,
    run: RunKept,
    asked: Asked,
    keys: Sequence[tuple[int, int]],
    of: Sequence[Budget],
    comparisons: int,
    gating: bool,
) -> list[Judged]:
    found = []
    for key in keys:
        theirs = [one.step(key) for one in baseline.runs]
        where = next(step.label for step in theirs if step is not None)
        for budget in of:
            stated = baseline.spread.get(budget.name) if asked.spread is None else Spread(asked.spread)
            found.append(judge(budget, where, run.step(key), theirs, comparisons, gating, stated))
    return found


def _quality(baseline: Baseline, run: RunKept, asked: Asked) -> tuple[list[Judged], list[str]]:
    if not asked.quality_budgets:
        return [], ["quality was left out on request: speed alone was judged"]
    theirs = [one.answers for one in baseline.runs if one.answers]
    if not theirs and not run.answers:
        return [], [
            "no run asked the fixed prompts (--quality): speed alone was judged, wrong answers would not be seen"
        ]
    if not theirs or not run.answers:
        who = "this run" if theirs else "the baseline"
        base = quality.of_baseline(theirs) if theirs else {}
        missing = [judge_quality(one, base.get(one.name, math.nan), math.nan) for one in asked.quality_budgets]
        why = f"{who} has no quality phase (--quality), so its answers are unknown"
        return [dataclasses.replace(one, verdict=Verdict.INVALID, reason=why) for one in missing[:1]], []
    base, ours = quality.of_baseline(theirs), quality.figures(run.answers, theirs)
    # A default budget on what no prompt asks for (JSON, say) judges nothing; one that somebody wrote must judge.
    by_default = {str(one) for one in budgets.parse(budgets.QUALITY_DEFAULT)}
    wanted = [one for one in asked.quality_budgets if str(one) not in by_default or not math.isnan(base[one.name])]
    judged = [judge_quality(one, base[one.name], ours[one.name]) for one in wanted]
    extra = budgets.parse_one(SHOWN_QUALITY)
    if extra.name not in {one.name for one in asked.quality_budgets}:
        judged.append(judge_quality(extra, base[extra.name], ours[extra.name], gating=False))
    return judged, []


def _notes(baseline: Baseline, asked: Asked) -> list[str]:
    notes = []
    if len(baseline.runs) == 1 and asked.spread is None and not baseline.spread:
        notes.append(
            f"one baseline run: how much runs differ from each other is unknown; a standard deviation of {ASSUMED.sd:.0%} is "
            "assumed (make calibrate measures it, or keep more baseline runs)"
        )
    return notes
