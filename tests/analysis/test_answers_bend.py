"""The knee, what binds there, the scalability law, Little's law: servers made by hand whose answer is known."""

import math
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares
from steps_on_paper import a_prefiller, a_queue, a_slow_decoder, a_step, table

from analysis import names, usl, usl_fit
from analysis.evidence import levels
from analysis.knee import Knee, curve, knee
from analysis.littles_law import check
from analysis.phase import Binding, Phase, binding

LOADS = [1, 2, 5, 10, 20, 50]


def bend(summary: pd.DataFrame, client_cpu: float = math.nan) -> tuple[Knee, Binding]:
    found = knee(summary)
    assert found is not None
    return found, binding(summary, found, client_cpu)


def test_a_full_batch_queues() -> None:
    """10 places, 1.05 s each: linear up to 10 users, flat beyond; one lone prompt takes 50 ms, 9.5 requests/s."""
    found, binds = bend(a_queue(LOADS, 10))
    assert (found.before.users, found.after.users) == (10, 20)
    assert found.share == pytest.approx(0, abs=1e-9)
    assert found.asymptotes_cross == pytest.approx(10)
    assert (binds.phase, binds.first_token_share) == (Phase.QUEUE, 1.0)
    assert binds.prefill_busy == pytest.approx(10 / 1.05 * 0.05)
    assert binds.decoding == pytest.approx(10 / 1.05 * 51 * 0.02)


def test_prompts_alone_fill_the_time() -> None:
    """Prompts of 0.5 s one by one: 2 requests/s at most, reached at (0.5 + 0.2) / 0.5 = 1.4 users."""
    found, binds = bend(a_prefiller(LOADS))
    assert (found.before.users, found.after.users) == (1, 2)
    assert found.asymptotes_cross == pytest.approx(1.4)
    assert (binds.phase, binds.prefill_busy) == (Phase.PREFILL, pytest.approx(1.0))


def test_without_a_lone_request_queue_and_prefill_are_not_told_apart() -> None:
    _, binds = bend(a_prefiller([5, 20]))
    assert (binds.phase, math.isnan(binds.prefill_busy)) == (Phase.FIRST_TOKEN, True)


def test_each_token_slower_is_decoding() -> None:
    found, binds = bend(a_slow_decoder(LOADS))
    assert (found.before.users, found.after.users) == (1, 2)
    assert (binds.phase, binds.first_token_share) == (Phase.DECODE, 0)
    assert binds.tpot_s == (pytest.approx(0.01), pytest.approx(0.02))


def test_both_phases() -> None:
    """50 gaps: 1 s more before the first token, 1 s more after it."""
    _, binds = bend(table([a_step(1, 0.1, 0.02), a_step(10, 1.1, 0.04)]))
    assert (binds.phase, binds.first_token_share) == (Phase.BOTH, pytest.approx(0.5))


def test_what_did_not_grow_explains_nothing() -> None:
    """Throughput stops, latency does not: users that pause, say. No phase is named."""
    idle = {names.OUTPUT_TOKENS_PER_S: a_step(2)[names.OUTPUT_TOKENS_PER_S]}
    assert bend(table([a_step(1), a_step(2), a_step(10, **idle)]))[1].phase is Phase.UNKNOWN


def test_a_busy_client_is_not_the_servers_bend() -> None:
    assert bend(a_queue(LOADS, 10), client_cpu=0.85)[1].phase is Phase.CLIENT
    assert bend(a_queue(LOADS, 10), client_cpu=0.75)[1].phase is Phase.QUEUE


def test_a_withheld_median_gives_way_to_the_mean() -> None:
    summary = a_queue([1, 10, 20], 10)
    summary[names.stat(names.TPOT, "p50")] = math.nan
    assert bend(summary)[1].statistic == names.MEAN
    summary[names.stat(names.TPOT, names.MEAN)] = math.nan
    assert bend(summary)[1].phase is Phase.UNKNOWN


def test_pauses_in_mid_answer_are_a_sign() -> None:
    summary = a_queue([1, 10, 20], 10)
    assert not bend(summary)[1].stalled
    summary.loc[2, names.stat(names.ITL, "p99")] = 0.2  # ten times the median, three times before
    assert bend(summary)[1].stalled


def test_no_knee_while_half_of_the_first_gain_is_left() -> None:
    def gains(*shares: float) -> Knee | None:
        rates = np.cumsum([100, *(100 * share for share in shares)])
        return knee(table([a_step(i + 1, output_tokens_per_s=rate) for i, rate in enumerate(rates)]))

    assert gains(0.9, 0.51) is None
    found = gains(0.9, 0.49)
    assert found is not None
    assert (found.before.users, found.after.users, found.sure) == (2, 3, None)
    falls = gains(0.9, -0.5)
    assert falls is not None
    assert falls.gain == pytest.approx(-50)


def test_intervals_say_whether_a_bend_is_shown() -> None:
    low, high = (names.stat(names.OUTPUT_TOKENS_PER_S, end) for end in (names.LOW, names.HIGH))

    def bent(half: float) -> Knee:
        rates = [100.0, 200.0, 240.0]
        rows = [
            a_step(i + 1, output_tokens_per_s=rate, **{low: rate - half, high: rate + half})
            for i, rate in enumerate(rates)
        ]
        found = knee(table(rows))
        assert found is not None
        return found

    assert (bent(1).sure, bent(20).sure) == (True, False)


def test_one_load_and_invalid_steps_bend_nothing() -> None:
    assert knee(table([a_step(5)])) is None
    assert knee(table([a_step(1), a_step(5, 9.0, verdict="invalid")])) is None
    assert len(curve(table([a_step(5, step=1), a_step(5, step=2)]))) == 1


def test_levels_average_repeats_and_keep_the_worst_verdict() -> None:
    found = levels(table([a_step(5, 0.1, step=1), a_step(5, 0.3, step=2, verdict="suspect"), a_step(1)]))
    assert found[names.TARGET_USERS].tolist() == [1, 5]
    assert found[names.stat(names.TTFT, "p50")].tolist() == pytest.approx([0.1, 0.2])
    assert found[names.VERDICT].tolist() == ["valid", "suspect"]


@settings(deadline=None, max_examples=15)
@given(st.randoms(use_true_random=False), st.sampled_from([0.25, 1.0, 64.0]))
def test_order_and_units_change_no_bend(rng: random.Random, factor: float) -> None:
    loads = LOADS[:]
    rng.shuffle(loads)
    found, binds = bend(a_queue(loads, 10, 0.05 * factor, 0.02 * factor))
    expected, bound = bend(a_queue(LOADS, 10))
    assert (found.before.users, found.after.users) == (expected.before.users, expected.after.users)
    assert found.gain * factor == pytest.approx(expected.gain, abs=1e-9)
    assert (binds.phase, binds.ttft_s[1]) == (bound.phase, pytest.approx(bound.ttft_s[1] * factor))


def law(loads: list[int], gamma: float, alpha: float, beta: float, noise: float = 0.0) -> pd.DataFrame:
    """Throughput by the law; every other step is off by `noise`, up and down."""
    rates = usl.model(np.array(loads, float), gamma, alpha, beta)
    signs = np.where(np.arange(len(loads)) % 2, 1 + noise, 1 - noise)
    return table([a_step(n, output_tokens_per_s=rate) for n, rate in zip(loads, rates * signs, strict=True)])


@pytest.mark.parametrize(
    ("gamma", "alpha", "beta"), [(50.0, 0.05, 0.0005), (2000.0, 0.3, 0.002), (7.0, 0.0, 0.001), (90.0, 0.02, 0.0)]
)
def test_known_coefficients_are_recovered(gamma: float, alpha: float, beta: float) -> None:
    found = usl.fit(law([1, 2, 5, 10, 20, 50, 80], gamma, alpha, beta, noise=0.005))
    assert found is not None
    assert found.shown, found.reason
    assert found.gamma == pytest.approx(gamma, rel=0.03)
    assert found.alpha == pytest.approx(alpha, rel=0.15, abs=0.01)
    assert found.beta == pytest.approx(beta, rel=0.15, abs=0.0002)
    if beta:
        peak = math.sqrt((1 - alpha) / beta)
        assert found.peak_concurrency == pytest.approx(peak, rel=0.1)
        assert found.peak_tokens_per_s == pytest.approx(float(usl.model(np.array(peak), gamma, alpha, beta)), rel=0.05)


@pytest.mark.parametrize(
    ("summary", "words"),
    [
        (law([1, 5, 20], 50, 0.05, 0.0005), "3 steps with a throughput; three coefficients need 4"),
        (law([1, 2, 5, 10, 20, 50], 50, 0.05, 0.0005, noise=0.15), "off the curve|R² is"),
        (table([a_step(n, output_tokens_per_s=100.0) for n in (1, 2, 5, 20)]), "R² is|serial"),
        (
            table([a_step(n, output_tokens_per_s=x) for n, x in ((1, 10), (2, 60), (5, 150), (20, 600))]),
            "off the|R² is",
        ),
    ],
)
def test_a_poor_fit_is_not_shown_and_says_why(summary: pd.DataFrame, words: str) -> None:
    found = usl.fit(summary)
    assert found is not None
    assert not found.shown
    assert (found.peak_concurrency, found.peak_tokens_per_s) == (None, None)
    assert any(part in found.reason for part in words.split("|")), found.reason


def test_either_rule_alone_rejects_a_fit() -> None:
    """Noise of 5 % on a plateau explains nothing (R²), though no step is far off; one small step far off hides in R²."""
    plateau = usl.fit(law([20, 25, 30, 40, 50], 50, 0.05, 0.0005, noise=0.05))
    assert plateau is not None
    assert plateau.residual < usl.MOST_RESIDUAL
    assert plateau.reason.startswith("R² is")
    rates = usl.model(np.array([1, 2, 5, 20, 50, 80], float), 50, 0.01, 0.0) * np.array([1, 1.3, 1, 1, 1, 1])
    one_off = usl.fit(
        table([a_step(n, output_tokens_per_s=x) for n, x in zip((1, 2, 5, 20, 50, 80), rates, strict=True)])
    )
    assert one_off is not None
    assert one_off.r2 > usl.LEAST_R2
    assert "off the curve" in one_off.reason


def test_a_peak_far_beyond_what_was_measured_is_not_predicted() -> None:
    found = usl.fit(law([1, 2, 5, 10, 20], 50, 0.02, 0.0001))  # its peak is at 99
    assert found is not None
    assert (found.shown, found.peak_concurrency) == (True, None)


def test_no_evidence_no_fit() -> None:
    assert usl.fit(table([a_step(5, verdict="invalid")])) is None


def test_littles_law_holds_in_a_closed_loop_and_fails_where_rows_are_missing() -> None:
    held, missing = check(table([a_step(5), a_step(20, requests_per_s=a_step(20)[names.REQUESTS_PER_S] * 0.7)]))
    assert (held.holds, held.mismatch) == (True, pytest.approx(0))
    assert (missing.holds, missing.mismatch) == (False, pytest.approx(-0.3))
    assert missing.expected == pytest.approx(14)


def test_the_tolerance_grows_with_answers_that_straddle_the_window() -> None:
    few = a_step(20, requests_per_s=a_step(20)[names.REQUESTS_PER_S] * 0.7)
    few[names.WINDOW_LENGTH_S] = 40 / few[names.REQUESTS_PER_S]  # 40 answers of 20 users: half an answer at each end
    (found,) = check(table([few]))
    assert (found.tolerance, found.holds) == (pytest.approx(0.1 + 20 / 40), True)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"requests_censored": 300}, "30% of the requests were still open"),
        ({"error_ratio": 0.06}, "6% of the requests failed"),
        ({names.stat(names.E2E, names.MEAN): math.nan}, "no mean E2E"),
    ],
)
def test_where_the_law_cannot_be_checked_it_says_why(more: dict[str, float], words: str) -> None:
    (found,) = check(table([a_step(5, **more)]))
    assert (found.holds, found.unchecked) == (None, words)


SHAPES = st.tuples(st.sampled_from([0.0, 1e-3, 0.02, 0.3, 1.0]), st.sampled_from([0.0, 1e-6, 1e-4, 1e-2]))
SOME_LOADS = st.lists(st.sampled_from([1, 2, 5, 8, 10, 20, 32, 50, 64, 100, 200]), min_size=4, max_size=8, unique=True)


@settings(max_examples=60, deadline=None)
@given(SOME_LOADS, SHAPES, st.sampled_from([0.0, 0.01, 0.1, 0.5]), st.integers(0, 1000))
def test_the_fit_is_at_least_as_close_as_scipys(
    loads: list[int], shape: tuple[float, float], noise: float, seed: int
) -> None:
    n = np.array(sorted(loads), float)
    x = usl.model(n, 40.0, *shape) * np.exp(np.random.default_rng(seed).normal(0, noise, len(n)))

    def residuals(guess: np.ndarray) -> np.ndarray:
        return usl.model(n, *guess) / x - 1

    theirs = min(
        least_squares(residuals, (40.0, alpha, beta), bounds=([0, 0, 0], [np.inf, 1, 1]), x_scale=(40, 0.1, 0.01)).cost
        for alpha, beta in usl_fit.STARTS
    )
    gamma, alpha, beta = usl_fit.coefficients(n, x)
    assert gamma > 0
    assert 0 <= alpha <= 1
    assert 0 <= beta <= 1
    assert (residuals(np.array([gamma, alpha, beta])) ** 2).sum() / 2 <= theirs * (1 + 1e-6) + 1e-12
