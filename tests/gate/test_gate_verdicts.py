"""Verdicts on steps made by hand: where the change lies decides, and what is not known never passes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import kept, names
from analysis.budget import parse_one
from analysis.change import Share, of_logs, of_shares
from analysis.kept import StepKept
from analysis.spread import Figure
from analysis.verdicts import Judged, Verdict, judge, judge_quality, worst
from tests.gate.kept_on_paper import EVEN, step

TTFT, TPOT = 0.2 + 0.02 * EVEN, 0.03 + 0.001 * EVEN


def verdict(budget: str, run: StepKept | None, *bases: StepKept | None, comparisons: int = 1) -> Judged:
    return judge(parse_one(budget), "20 users", run, bases, comparisons)


@pytest.mark.parametrize(
    ("budget", "run", "expected"),
    [
        ("ttft_p95:+10%", step(), Verdict.PASS),
        ("ttft_p95:+10%", step(ttft_s=TTFT * 1.02), Verdict.PASS),
        ("ttft_p95:+10%", step(ttft_s=TTFT * 1.10), Verdict.INCONCLUSIVE),
        ("ttft_p95:+10%", step(ttft_s=TTFT * 1.30), Verdict.FAIL),
        ("ttft_p95:+10%", step(ttft_s=TTFT * 0.5), Verdict.PASS),
        ("ttft_p95:+100ms", step(ttft_s=TTFT * 1.30), Verdict.PASS),
        ("ttft_p95:+30ms", step(ttft_s=TTFT * 1.30), Verdict.FAIL),
        ("ttft_p95:+1%|100ms", step(ttft_s=TTFT * 1.30), Verdict.PASS),
        ("tpot_p50:+5%", step(tpot_s=TPOT * 1.20), Verdict.FAIL),
        ("tpot_p50:+5%", step(ttft_s=TTFT * 1.20), Verdict.PASS),
        ("user_tokens_per_s_p05:-5%", step(), Verdict.INVALID),  # this builder keeps no such figure
        ("output_tokens_per_s:-5%", step(tokens_per_s=600), Verdict.PASS),
        ("output_tokens_per_s:-5%", step(tokens_per_s=500), Verdict.FAIL),
        ("output_tokens_per_s:-5%", step(tokens_per_s=900), Verdict.PASS),
        ("error_ratio:+1pp", step(), Verdict.PASS),
        ("error_ratio:+1pp", step(errors=100), Verdict.FAIL),
        ("error_ratio:+1pp", step(errors=12), Verdict.INCONCLUSIVE),
        (
            "error_ratio:+1pp",
            step(requests=60),
            Verdict.INCONCLUSIVE,
        ),  # no error in 60 does not show that it is below 1 %
    ],
)
def test_where_the_change_lies_decides(budget: str, run: StepKept, expected: Verdict) -> None:
    assert verdict(budget, run, step()).verdict is expected


def test_an_improvement_is_named() -> None:
    assert verdict("ttft_p95:+10%", step(ttft_s=TTFT * 0.5), step()).improved
    assert verdict("output_tokens_per_s:-5%", step(tokens_per_s=900), step()).improved
    assert not verdict("ttft_p95:+10%", step(), step()).improved


@pytest.mark.parametrize(
    ("run", "base", "words"),
    [
        (None, step(), "the run has no such step"),
        (step(), None, "the baseline has no such step"),
        (step(ttft_s=np.array([0.1] * 20)), step(), "n too small: 20, needs 59"),
        (step(), step(ttft_s=np.array([])), "no samples"),
        (step(verdict="invalid", client_verdict="invalid", reasons="client CPU 97 %"), step(), "client CPU 97 %"),
        (step(), step(verdict="invalid", reasons="x"), "the step of the baseline is invalid"),
        (step(figures={}), step(), "it was not measured"),
        (step(ttft_s=TTFT * 0), step(), "there is no percentage of that"),
        (step(request_s=50.0), step(), "too short for requests of 50.0 s"),
        (step(request_s=math.nan), step(), "too short"),
        (step(samples={}), step(), "no sample of ttft_p95 was kept"),
    ],
)
def test_no_evidence_is_invalid(run: StepKept | None, base: StepKept | None, words: str) -> None:
    found = verdict("ttft_p95:+10%", run, base)
    assert found.verdict is Verdict.INVALID
    assert words in found.reason


def test_one_of_several_baseline_runs_without_the_step_is_no_baseline() -> None:
    assert verdict("ttft_p95:+10%", step(), step(), None).verdict is Verdict.INVALID


def test_errors_of_the_server_are_judged_where_they_alone_make_a_step_invalid() -> None:
    failing = step(errors=600, verdict="invalid", client_verdict="valid", reasons="50.0% of the requests failed")
    assert verdict("error_ratio:+1pp", failing, step()).verdict is Verdict.FAIL
    assert verdict("ttft_p95:+10%", failing, step()).verdict is Verdict.INVALID
    client = step(errors=600, verdict="invalid", client_verdict="invalid")
    assert verdict("error_ratio:+1pp", client, step()).verdict is Verdict.INVALID


def test_rates_and_shares_of_nothing() -> None:
    nothing = step(requests=0, tokens_per_s=0.0)
    assert verdict("error_ratio:+1pp", nothing, step()).verdict is Verdict.INVALID
    assert verdict("output_tokens_per_s:-5%", nothing, step()).verdict is Verdict.INVALID
    uncounted = step(counts={kept.SENT: np.zeros(60)})
    assert verdict("error_ratio:+1pp", uncounted, step()).verdict is Verdict.INVALID
    assert verdict("output_tokens_per_s:-5%", uncounted, step()).verdict is Verdict.INVALID


def test_inconclusive_says_how_long_a_run_would_decide() -> None:
    noisy = np.random.default_rng(3).lognormal(-1.6, 0.4, 300)
    found = verdict("ttft_p95:+25%|0ms", step(ttft_s=noisy), step(ttft_s=np.sort(noisy)[::-1]))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "times as long" in found.reason
    equal = verdict("ttft_p95:+10%", step(ttft_s=TTFT * 1.10), step())
    assert "longer runs would not decide it" in equal.reason
    assert "keep more baseline runs" in equal.reason
    shares = verdict("error_ratio:+1pp", step(requests=120), step(requests=120))
    assert "times as long" in shares.reason


def test_worst_wins_and_nothing_judged_is_no_pass() -> None:
    assert worst([]) is Verdict.INVALID
    assert worst([Verdict.PASS, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE
    assert worst([Verdict.INVALID, Verdict.INCONCLUSIVE]) is Verdict.INVALID
    assert worst([Verdict.INVALID, Verdict.FAIL, Verdict.PASS]) is Verdict.FAIL


def test_the_spread_of_the_baselines_own_runs_is_part_of_the_doubt() -> None:
    quiet = [step(ttft_s=TTFT * factor) for factor in (1.0, 1.001, 0.999)]
    wide = [step(ttft_s=TTFT * factor) for factor in (1.0, 1.25, 0.8)]
    worse = step(ttft_s=TTFT * 1.3)
    assert verdict("ttft_p95:+10%", worse, *quiet).verdict is Verdict.FAIL
    assert verdict("ttft_p95:+10%", worse, *wide).verdict is Verdict.INCONCLUSIVE


def test_lying_among_the_baselines_runs_is_enough_only_where_they_differ_by_more_than_the_budget() -> None:
    runs = [step(ttft_s=TTFT * factor) for factor in (1.0, 1.04, 0.96)]
    now = step(ttft_s=TTFT * 0.99)
    assert verdict("ttft_p95:+3%", now, *runs).verdict is Verdict.PASS
    undecided = verdict("ttft_p95:+10%", now, *runs)  # here more runs would decide it
    assert undecided.verdict is Verdict.INCONCLUSIVE
    assert "keep more baseline runs" in undecided.reason


def test_more_comparisons_make_failing_harder_and_passing_no_easier() -> None:
    one, many = (verdict("ttft_p95:+10%", step(ttft_s=TTFT * 1.1), step(), comparisons=n) for n in (1, 40))
    assert many.low < one.low
    assert many.high == one.high


positive = st.floats(0.01, 100)


@settings(deadline=None, max_examples=60)
@given(positive, positive, st.floats(0, 0.5), st.floats(0, 0.5), st.integers(1, 50))
def test_the_interval_encloses_the_change(
    run: float, base: float, run_sd: float, base_sd: float, comparisons: int
) -> None:
    for sign in (1, -1):
        found = of_logs(Figure(math.log(run), run_sd, 5), [Figure(math.log(base), base_sd, 5)], sign, None, comparisons)
        assert found.low <= found.harm <= found.high
        assert found.harm == pytest.approx(sign * math.log(run / base))


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 2000), st.integers(1, 2000), st.data(), st.floats(1, 5))
def test_shares_and_their_bounds(n: int, m: int, data: st.DataObject, excess: float) -> None:
    run = Share(data.draw(st.integers(0, n)), n, min(excess, n))
    base = Share(data.draw(st.integers(0, m)), m)
    for sign in (1, -1):
        found = of_shares(run, base, sign, 4)
        assert found.low <= found.harm + 1e-12
        assert found.harm <= found.high + 1e-12
        assert all(map(math.isfinite, (found.low, found.high)))


def test_no_error_in_few_requests_bounds_the_ratio_as_the_binomial_does() -> None:
    found = of_shares(Share(0, 100), Share(0, 100), 1, 1)
    assert found.high == pytest.approx(1 - 0.01 ** (1 / 100), rel=1e-6)


def test_quality_is_judged_by_what_is_seen() -> None:
    assert judge_quality(parse_one("quality_empty:+5pp"), 0.0, 0.05).verdict is Verdict.PASS
    assert judge_quality(parse_one("quality_empty:+5pp"), 0.0, 0.10).verdict is Verdict.FAIL
    assert judge_quality(parse_one("quality_similarity:-20pp"), 1.0, 0.85).verdict is Verdict.PASS
    assert judge_quality(parse_one("quality_length_ratio:-30%"), 1.0, 0.5).verdict is Verdict.FAIL
    assert judge_quality(parse_one("quality_length_ratio:-30%"), 0.0, 0.5).verdict is Verdict.INVALID
    assert judge_quality(parse_one("quality_valid_json:-5pp"), math.nan, 1.0).verdict is Verdict.INVALID
    assert judge_quality(parse_one("quality_empty:+5pp"), 0.5, 0.1).improved


def test_a_users_rate_is_the_inverse_of_tpot() -> None:
    figures = {"user_tokens_per_s_p05": 1 / float(np.quantile(TPOT, 0.95)), "user_tokens_per_s_p50": 1 / 0.0305}
    slow = {name: value / 1.2 for name, value in figures.items()}
    base, run = step(figures=figures), step(tpot_s=TPOT * 1.2, figures=slow)
    found = verdict("user_tokens_per_s_p05:-5%", run, base)
    assert found.verdict is Verdict.FAIL
    assert found.change == pytest.approx(1 / 1.2 - 1)
    assert verdict("user_tokens_per_s_p05:-5%", base, base).verdict is Verdict.PASS
    assert names.USER_TOKENS_PER_S in found.budget.name
