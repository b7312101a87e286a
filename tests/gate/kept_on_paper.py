"""Runs as the gate keeps them, made by hand: no files, no chance that is not seeded."""

import dataclasses
from typing import Any

import numpy as np

from analysis import kept, names
from analysis.baseline import Baseline, RunKept
from analysis.budget import parse
from analysis.gate import Asked
from analysis.kept import StepKept
from analysis.quality import Answers
from analysis.resampling import CELLS, Samples
from analysis.spread import Spread
from analysis.stats import Ordered
from tokenswarm.quality import QualityAnswer, QualityPrompt
from tokenswarm.record import Outcome

T0 = 1_761_442_200.0
WINDOW_S = 60.0
EVEN = np.arange(1200) % 60 / 60  # 0 … 1, the same in every cell


def samples(values_s: np.ndarray) -> Samples:
    """`values_s` in order of time, evenly over the window."""
    cell = np.arange(len(values_s)) * CELLS // max(len(values_s), 1)
    return Samples(cell, np.asarray(values_s, dtype=float) * 1e6, np.zeros(len(values_s), bool))


def step(
    ttft_s: np.ndarray | None = None,
    tpot_s: np.ndarray | None = None,
    users: int = 20,
    nth: int = 1,
    tokens_per_s: float = 600.0,
    errors: int = 0,
    requests: int = 1200,
    **more: Any,
) -> StepKept:
    ttft = 0.2 + 0.02 * EVEN if ttft_s is None else np.asarray(ttft_s)
    tpot = 0.03 + 0.001 * EVEN if tpot_s is None else np.asarray(tpot_s)
    figures, told = {}, {}
    for name, values in ((names.TTFT, ttft), (names.TPOT, tpot)):
        for which, quantile in names.QUANTILES.items():
            estimate = Ordered(values).percentile(quantile)
            figures[f"{name}_{which}"] = estimate.value
            if np.isnan(estimate.value):
                told[f"{name}_{which}"] = estimate.warning
    per_cell = np.full(CELLS, requests / CELLS)
    wrong = np.bincount(np.arange(errors) * CELLS // max(errors, 1), minlength=CELLS).astype(float)
    figures |= {names.OUTPUT_TOKENS_PER_S: tokens_per_s, names.ERROR_RATIO: errors / requests if requests else np.nan}
    known: dict[str, Any] = {
        "users": users,
        "nth": nth,
        "window_s": WINDOW_S,
        "request_s": 4.0,
        "verdict": "valid",
        "client_verdict": "valid",
        "reasons": "",
        "withheld": "; ".join(f"{name}: {why}" for name, why in told.items()),
        "figures": figures,
        "counts": {
            kept.OUTPUT_TOKENS: np.full(CELLS, tokens_per_s * WINDOW_S / CELLS),
            kept.JUDGED: per_cell,
            kept.NOT_OK: wrong,
            kept.OK: per_cell - wrong,
        },
        "samples": {names.TTFT: samples(ttft), names.TPOT: samples(tpot)},
    }
    return StepKept(**known | more)


def info(**more: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "schema": 1,
        "definitions_version": 1,
        "run_id": "r",
        "started_at": T0,
        "ended_at": T0 + 60,
        "state": "complete",
        "scenario": {"name": "stepload", "steps": [20], "step_time_s": 60.0, "warmup_s": 0.0},
        "slos": {},
        "model": "m1",
        "conditions": {"model": "m1", "gpu": "A", "max_tokens": 128, "prompt_tokens": 64, "engine_version": "1"},
        "seed": 1,
        "versions": {"tokenswarm": "0.1.0"},
        "host": "h",
        "cores": 2,
        "workers": 1,
        "options": {"fresh_connections": False},
    }
    return known | more


def run(*steps: StepKept, answers: Answers | None = None, **about: Any) -> RunKept:
    return RunKept(info(**about), steps or (step(),), answers or {}, "abc")


def baseline(*runs: RunKept, spread: dict[str, Spread] | None = None) -> Baseline:
    """Runs that were not named get names of their own: the same run is no baseline for itself."""
    named = [
        dataclasses.replace(one, info=one.info | {"run_id": f"b{i}"}) if one.run_id == info()["run_id"] else one
        for i, one in enumerate(runs or (run(),))
    ]
    return Baseline("main", tuple(named), spread or {})


def asked(text: str = "ttft_p95:+10%", **more: Any) -> Asked:
    return Asked(budgets=parse(text), **more)


def answer(name: str, text: str, **more: Any) -> QualityAnswer:
    asks = {key: more.pop(key) for key in ("exact", "regex", "json", "json_schema") if key in more}
    prompt = QualityPrompt(id=name, messages=[{"role": "user", "content": name}], **asks)
    known: dict[str, Any] = {"request_id": name, "outcome": Outcome.OK, "finish_reason": "stop", "text": text}
    return QualityAnswer(prompt=prompt, **known | more)


def answers(*given: QualityAnswer) -> Answers:
    return {one.prompt.id: one for one in given}
