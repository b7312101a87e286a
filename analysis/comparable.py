"""Are two runs of the same thing? What differs is named, and refuses the gate unless it was allowed; unknown is not equal.

`--allow engine_version` says that it is the thing under test.
"""

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from analysis import quality
from analysis.baseline import RunKept

DEFINITIONS, QUALITY_PROMPTS, STEPS = "definitions_version", "quality_prompts", "steps"
# Names that say the same: the model stands in the conditions too, and seeds and limits in the options.
NOTED = ("host", "os", "python", "locust", "openai", "gevent", "httptools", "msgspec", "transformers")


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    name: str
    base: Any
    run: Any

    def __str__(self) -> str:
        return f"{self.name}: {_shown(self.base)} in the baseline, {_shown(self.run)} in this run"


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    refused: tuple[Difference, ...]  # differ, and were not allowed to
    allowed: tuple[Difference, ...]
    unknown: tuple[str, ...]  # not told by either, or only by one
    noted: tuple[Difference, ...]  # differ, and do not refuse
    unused: tuple[str, ...]  # allowed, but nothing of that name is compared


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def conditions(run: RunKept) -> dict[str, Any]:
    """Name → value of all that refuses where it differs; None is unknown."""
    info = run.info
    scenario, options = info.get("scenario") or {}, info.get("options") or {}
    versions = info.get("versions") or {}
    found = dict(info.get("conditions") or {})
    found.setdefault("model", info.get("model"))
    return found | {
        DEFINITIONS: info.get(DEFINITIONS),
        "scenario": scenario.get("name"),
        STEPS: scenario.get("steps"),
        "step_time_s": scenario.get("step_time_s"),
        "warmup_s": scenario.get("warmup_s"),
        "seed": info.get("seed"),
        "slos": info.get("slos"),
        "client_version": versions.get("tokenswarm"),
        "workers": info.get("workers"),
        "cores": info.get("cores"),
        **{name: value for name, value in options.items() if name != "quality"},
    }


def _notes(run: RunKept) -> dict[str, Any]:
    info = run.info
    return {"host": info.get("host"), **{n: v for n, v in (info.get("versions") or {}).items() if n in NOTED}}


def compare(run: RunKept, baselines: Sequence[RunKept], allow: Collection[str] = ()) -> Comparison:
    """`run` against every run of the baseline."""
    ours, differing, unknown = conditions(run), [], []
    names = list(dict.fromkeys([*(name for base in baselines for name in conditions(base)), *ours]))
    for name in names:
        for base in baselines:
            theirs = conditions(base).get(name)
            if theirs is None or ours.get(name) is None:
                unknown.append(name)
            elif theirs != ours[name]:
                differing.append(Difference(name, theirs, ours[name]))
                break
    differing += _prompts(run, baselines)
    noted = (
        Difference(name, _notes(base).get(name), value)
        for base in baselines[-1:]
        for name, value in _notes(run).items()
        if _notes(base).get(name) != value
    )
    known = {*names, QUALITY_PROMPTS}
    return Comparison(
        refused=tuple(one for one in differing if one.name not in allow),
        allowed=tuple(one for one in differing if one.name in allow),
        unknown=tuple(dict.fromkeys(unknown)),
        noted=tuple(noted),
        unused=tuple(name for name in allow if name not in known),
    )


def _prompts(run: RunKept, baselines: Sequence[RunKept]) -> Iterator[Difference]:
    """Another set of quality prompts is another measurement. (No set at all is missing evidence, said elsewhere.)"""
    ours = quality.prompts(run.answers)
    for base in baselines:
        theirs = quality.prompts(base.answers)
        if ours and theirs and ours != theirs:
            changed = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
            yield Difference(QUALITY_PROMPTS, f"{len(theirs)} prompts", f"{len(ours)}, other: {', '.join(changed)}")
            return
