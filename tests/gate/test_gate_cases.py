"""What went wrong elsewhere: reports of gates that lied, as cases (cases.jsonl).

Their exit codes are those of other programs. Here: 0 pass, 1 fail, 2 wrong use, 3 inconclusive, 4 invalid or no evidence.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import gate
from analysis.budget import parse, parse_one
from analysis.comparable import compare
from analysis.gate import Asked, Exit
from analysis.kept import StepKept
from analysis.spread import Spread
from analysis.verdicts import Verdict, judge
from tests.gate.kept_on_paper import EVEN, asked, baseline, info, run, step

CASES = {case["id"]: case for case in map(json.loads, Path(__file__).with_name("cases.jsonl").read_text().splitlines())}


def repeated(values_ms: list[float]) -> StepKept:
    """A step whose TTFT are those values over and over: as many as a percentile needs."""
    return step(ttft_s=np.resize(values_ms, 240) / 1000)


def test_c01_noise_between_machines_larger_than_the_effect() -> None:
    given = CASES["C01"]["input"]
    bases, now = [repeated(one) for one in given["baseline_runs_ms"]], repeated(given["current_ms"])
    budget = parse_one("ttft_p50:+5%")
    found = judge(budget, "", now, bases, 1)
    assert found.verdict.value == CASES["C01"]["expected"]["verdict"]
    assert "run-to-run spread of the baseline" in found.reason
    worse = judge(budget, "", repeated([124, 125, 123, 124]), bases, 1)
    assert (
        worse.verdict is Verdict.INCONCLUSIVE
    )  # among them, but worse than their middle: that is not shown to be noise
    for base in bases:  # one run, and the spread that was measured for this machine
        assert judge(budget, "", now, [base], 1, stated=Spread(0.12)).verdict is Verdict.INCONCLUSIVE


def test_c02_many_metrics() -> None:
    """48 comparisons of identical things: none of them fails, in any of 60 gates."""
    random = np.random.default_rng(5)
    for _ in range(60 // 12):
        noisy = [step(ttft_s=0.2 * np.exp(0.2 * random.standard_normal(1200))) for _ in range(24)]
        for base, now in zip(noisy[::2], noisy[1::2], strict=True):
            found = judge(parse_one("ttft_p95:+1%|0ms"), "", now, [base], CASES["C02"]["input"]["metrics"])
            assert found.verdict is not Verdict.FAIL


def of_case(given: dict[str, Any]) -> dict[str, Any]:
    """A case's conditions as run.json has them."""
    scenario = {"name": "stepload", "steps": given["steps"], "step_time_s": 60.0, "warmup_s": 0.0}
    return {"scenario": scenario, "conditions": {k: v for k, v in given.items() if k != "steps"}}


def test_c03_runs_under_different_conditions() -> None:
    case = CASES["C03"]
    base, now = (run(**of_case(case["input"][who])) for who in ("baseline", "current"))
    found = gate.hold(baseline(base), now, asked())
    assert sorted(one.name for one in found.comparison.refused) == case["expected"]["differs"]
    assert found.exit_code == case["expected"]["exit_code"] == Exit.INVALID
    assert (found.judged, found.shown) == ((), ())  # no number is compared
    allowed = gate.hold(baseline(base), now, asked(allow=["gpu", "max_tokens"]))
    assert allowed.exit_code is Exit.PASS
    half = gate.hold(baseline(base), now, asked(allow=["gpu"]))
    assert [one.name for one in half.comparison.refused] == ["max_tokens"]


def test_c04_what_is_missing_is_not_passed() -> None:
    """The case calls it `fail`; missing evidence has an exit code of its own here. It is no pass in either."""
    base = run(step(users=1), step(users=5))
    missing_step = gate.hold(baseline(base), run(step(users=1)), asked("ttft_p50:+10%"))
    assert missing_step.exit_code is Exit.INVALID
    assert [one.where for one in missing_step.judged if one.verdict is Verdict.INVALID] == ["5 users"]
    no_figure = step(users=5, figures={name: v for name, v in step().figures.items() if name != "ttft_p50"})
    missing_figure = gate.hold(baseline(base), run(step(users=1), no_figure), asked("ttft_p50:+10%"))
    assert missing_figure.exit_code is Exit.INVALID
    empty = gate.hold(baseline(base), run(step(users=1, requests=0, ttft_s=np.array([]))), asked())
    assert empty.exit_code is Exit.INVALID


def test_c06_the_baseline_carries_its_origin() -> None:
    """Read from a protected revision: tests/gate/test_gate_baseline.py. Its run, age and hash are shown."""
    from analysis import gate_text

    found = gate.hold(baseline(run(run_id="r1")), run(run_id="r2"), asked())
    text = gate_text.render(found, 120, now_s=info()["started_at"] + 3 * 86400)
    assert "r1 (3 days old, abc)" in text


def test_c09_a_p95_of_five_samples() -> None:
    """The case counts 5 samples as enough for a p50; the distribution-free interval that we ask for needs 6."""
    values = CASES["C09"]["input"]["samples_ms"]
    few = step(ttft_s=np.array([*values[:4], 140, 501]) / 1000)
    assert math.isnan(few.figures["ttft_p95"])
    assert few.figures["ttft_p50"] == pytest.approx(0.125)
    found = judge(parse_one("ttft_p95:+500ms"), "", few, [few], 1)
    assert (found.verdict, "n too small: 6, needs 59" in found.reason) == (Verdict.INVALID, True)
    median = judge(parse_one("ttft_p50:+900ms"), "", few, [few], 1)
    assert median.verdict is Verdict.PASS


def test_c11_a_measurement_fault_is_refused() -> None:
    faulty = step(verdict="invalid", client_verdict="invalid", reasons="97 of 100 rows hold impossible times")
    found = gate.hold(baseline(), run(faulty), asked())
    assert found.exit_code is Exit.INVALID
    assert "impossible times" in found.judged[0].reason


def test_c21_definitions_changed_between_two_runs() -> None:
    """The case would still compare e2e; one version stands for all definitions here, so nothing is compared."""
    now = run(definitions_version=2)
    assert [one.name for one in compare(now, [run()]).refused] == ["definitions_version"]
    assert gate.hold(baseline(), now, asked()).exit_code is Exit.INVALID


def broken() -> Iterator[StepKept]:
    nan = dict.fromkeys(step().figures, math.nan)
    yield step(figures=nan)
    yield step(figures=dict.fromkeys(nan, math.inf))
    yield step(figures=dict.fromkeys(nan, 0.0))
    yield step(figures=dict.fromkeys(nan, -1.0))
    yield step(samples={}, counts={})
    yield step(ttft_s=np.array([]), tpot_s=np.array([]), requests=0, tokens_per_s=0.0)
    yield step(window_s=math.nan)
    yield step(window_s=0.0)
    yield step(verdict="invalid", client_verdict="invalid")


@pytest.mark.parametrize("of_baseline", [False, True])
def test_nothing_that_is_broken_passes(of_baseline: bool) -> None:
    everything = parse("ttft_p95:+1000%,tpot_p50:+1000%,output_tokens_per_s:-99%,error_ratio:+100pp")
    for one in broken():
        bad = run(one)
        found = gate.hold(
            baseline(bad if of_baseline else run()), run() if of_baseline else bad, Asked(budgets=everything)
        )
        latency = [line for line in found.judged if line.budget.name.startswith("t")]
        assert all(line.verdict is Verdict.INVALID for line in latency)
        assert found.exit_code is not Exit.PASS


def test_identical_runs_pass_and_a_slower_one_fails() -> None:
    assert (
        gate.hold(baseline(), run(), asked("ttft_p95:+10%,tpot_p50:+5%,output_tokens_per_s:-5%")).exit_code is Exit.PASS
    )
    slow = run(step(tpot_s=(0.03 + 0.001 * EVEN) * 1.15))
    assert gate.hold(baseline(), slow, asked("ttft_p95:+10%,tpot_p50:+5%")).exit_code is Exit.FAIL
