"""Percentiles are numpy's, intervals hold what they promise, and what cannot be known is withheld."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from analysis.stats import Estimate, Ordered, order_interval, reasons, smallest_n, withheld

QUANTILES = (0.01, 0.05, 0.5, 0.95, 0.99)


@pytest.mark.parametrize(("quantile", "n"), [(0.5, 6), (0.95, 59), (0.99, 299)])
def test_the_smallest_n(quantile: float, n: int) -> None:
    assert smallest_n(quantile) == n
    assert order_interval(n - 1, quantile) is None
    assert order_interval(n, quantile) is not None


def test_known_ranks() -> None:
    """From tables of the sign test's interval: n = 10 median [2, 9], n = 20 [6, 15]."""
    assert order_interval(10, 0.5) == (2, 9)
    assert order_interval(20, 0.5) == (6, 15)


@pytest.mark.parametrize("quantile", QUANTILES)
def test_ranks_cover_the_quantile_with_95_percent(quantile: float) -> None:
    for n in (*range(1, 700), 10_000, 3_000_000):
        ranks = order_interval(n, quantile)
        if ranks is None:
            assert n < smallest_n(quantile)
            continue
        low, high = ranks
        assert 1 <= low < high <= n
        assert binom.cdf(high - 1, n, quantile) - binom.cdf(low - 1, n, quantile) >= 0.95 - 1e-9


@given(st.integers(299, 400), st.integers(0, 2**32), st.sampled_from([3, 1000, 10**9]))
def test_percentiles_are_in_order_and_numpys(n: int, seed: int, most: int) -> None:
    values = np.random.default_rng(seed).integers(0, most, n, endpoint=True)
    ordered = Ordered(values)
    p50, p95, p99 = (ordered.percentile(q) for q in (0.5, 0.95, 0.99))
    assert p50.value <= p95.value <= p99.value <= ordered.largest == max(values)
    for quantile, found in ((0.5, p50), (0.95, p95), (0.99, p99)):
        assert found.value == pytest.approx(np.percentile(values, quantile * 100))
        assert found.low <= found.value <= found.high
        assert found.n == len(values)


def test_a_single_sample_is_not_a_percentile() -> None:
    ordered = Ordered(np.array([575]))
    assert math.isnan(ordered.percentile(0.99).value)
    assert ordered.largest == 575
    assert ordered.percentile(0.99).warning == "n too small: 1, needs 299"


def test_no_samples() -> None:
    assert math.isnan(Ordered(np.empty(0)).percentile(0.5).value)
    assert Ordered(np.empty(0)).percentile(0.5).warning == "no samples"
    assert Ordered(np.array([3.0]), np.array([True])).percentile(0.5).warning == "none of 1 had ended"


def test_kaplan_meier_by_hand() -> None:
    """Times 1 2 3+ 4 5 6 7 8+ (+: still open). S: 7/8, 6/8, then 4/5, 3/4 … of the rest: 0.6, 0.45, 0.3, 0.15."""
    times = np.array([1.0, 2, 3, 4, 5, 6, 7, 8])
    ordered = Ordered(times, np.array([0, 0, 1, 0, 0, 0, 0, 1], bool))
    assert (ordered.n, ordered.open, ordered.largest) == (6, 2, 7)
    # ranks 3 and 4 of 6: where the distribution reaches 3/6 (at 5: 0.55) and 4/6 (at 6: 0.7), halfway between
    assert (ordered.at(3), ordered.at(4)) == (5, 6)
    assert math.isnan(ordered.at(6))  # 0.85 is all that was seen
    assert math.isnan(ordered.percentile(0.5).value)  # its interval needs rank 6
    assert ordered.percentile(0.5).warning == "2 of 8 were still open when the window closed"
    mean = ordered.mean()
    assert mean.value == pytest.approx(1 + 0.875 + 2 * 0.75 + 0.6 + 0.45 + 0.3 + 0.15)
    assert mean.warning == "lower bound: 2 of 8 were still open when the window closed"


@given(st.lists(st.integers(1, 10**6), min_size=20, max_size=200), st.integers(1, 10**6))
def test_watching_for_a_shorter_time_never_makes_it_look_faster(lengths: list[int], watched: int) -> None:
    """Samples longer than `watched` are only known to be longer: the median stays, or is withheld; it never falls."""
    times = np.array(lengths, float)
    is_open = times > watched
    whole = Ordered(times).percentile(0.5)
    seen = Ordered(np.minimum(times, watched), is_open).percentile(0.5)
    if not is_open.any():
        assert seen == whole
    elif not math.isnan(seen.value):
        below, above = np.sort(times)[[(len(times) - 1) // 2 - 1, len(times) // 2 + 1]]
        assert below <= seen.value <= above  # between the neighbours of the true one: ranks of fewer samples


def test_the_interval_covers_the_true_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(400):
        times, watched = rng.exponential(1, 200), rng.exponential(4, 200)
        found = Ordered(np.minimum(times, watched), times > watched).percentile(0.5)
        hits += found.low <= math.log(2) <= found.high
    assert hits >= 370  # 92.5 %; the same draws every time


def test_the_mean_of_three() -> None:
    found = Ordered(np.array([1.0, 2.0, 3.0])).mean()
    assert (found.value, found.n) == (2.0, 3)
    assert found.high - found.value == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)  # t(2) at 97.5 %


def test_inverting_swaps_the_ends() -> None:
    found = Estimate(0.02, 0.01, 0.04, 100).inverted()
    assert (found.value, found.low, found.high) == pytest.approx((50, 25, 100))
    assert math.isnan(Estimate(0.0, 0.0, 0.0, 100).inverted().value)


def test_one_reason_is_said_once() -> None:
    few = withheld(5, "n too small: 5, needs 59")
    assert reasons([("a", few), ("b", few), ("c", Estimate(1, 1, 1, 9))]) == ["a, b: n too small: 5, needs 59"]
