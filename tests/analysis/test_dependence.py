"""Correlated latencies: intervals cover as often as they say, where those of independent samples do not."""

import math
import time
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import CensoredData, ecdf, t

from analysis.dependence import INDEPENDENT, MOST_GROUPS, in_order, spread, student
from analysis.stats import Estimate, Ordered, order_interval, ratio, withheld

RUNS = 300
QUANTILES = (0.5, 0.95)


def latencies(rng: np.random.Generator, samples: int, phi: float) -> np.ndarray:
    """Log-normal with median 1, each correlated with the one before."""
    noise = rng.standard_normal((RUNS, samples)) * math.sqrt(1 - phi**2)
    found = np.empty_like(noise)
    found[:, 0] = rng.standard_normal(RUNS)
    for i in range(1, samples):
        found[:, i] = phi * found[:, i - 1] + noise[:, i]
    return np.exp(found)


def true_quantile(quantile: float) -> float:
    return math.exp(NormalDist().inv_cdf(quantile))


def coverage(estimate: Callable[[np.ndarray], Estimate], runs: np.ndarray, truth: float) -> float:
    found = [estimate(one) for one in runs]
    return sum(one.low <= truth <= one.high for one in found) / len(found)


def of_independent(quantile: float) -> Callable[[np.ndarray], Estimate]:
    def estimate(values: np.ndarray) -> Estimate:
        ranks = order_interval(len(values), quantile)
        assert ranks is not None
        ordered = np.sort(values)
        return Estimate(np.nan, ordered[ranks[0] - 1], ordered[ranks[1] - 1], len(values))

    return estimate


@pytest.mark.parametrize("quantile", QUANTILES)
@pytest.mark.parametrize(("phi", "samples"), [(0.6, 400), (0.8, 1500)])
def test_intervals_cover_on_correlated_latencies(quantile: float, phi: float, samples: int) -> None:
    runs, truth = latencies(np.random.default_rng(1), samples, phi), true_quantile(quantile)
    assert coverage(lambda values: Ordered(values).percentile(quantile), runs, truth) >= 0.90
    assert coverage(of_independent(quantile), runs, truth) <= 0.88
    assert coverage(lambda values: Ordered(values).mean(), runs, math.exp(0.5)) >= 0.88


@pytest.mark.parametrize("quantile", QUANTILES)
def test_intervals_of_independent_samples_stay_as_they_are(quantile: float) -> None:
    runs = latencies(np.random.default_rng(2), 400, 0)
    plain = [of_independent(quantile)(one) for one in runs]
    found = [Ordered(one).percentile(quantile) for one in runs]
    same = [(one.low, one.high) == (other.low, other.high) for one, other in zip(found, plain, strict=True)]
    assert np.mean(same) >= 0.8
    assert coverage(lambda values: Ordered(values).percentile(quantile), runs, true_quantile(quantile)) >= 0.93


def test_gaps_of_streams_that_share_a_slow_second_are_few_samples() -> None:
    """50 streams and 200 ticks of 5 gaps: what differs is the tick, so 50,000 gaps tell as much as 200."""
    rng = np.random.default_rng(3)
    hits = {True: 0, False: 0}
    for _ in range(200):
        tick = np.exp(rng.standard_normal(200))
        gaps = (tick[None, :, None] * np.exp(0.1 * rng.standard_normal((50, 200, 5)))).ravel()
        pieces = np.broadcast_to((np.arange(200) * MOST_GROUPS // 200)[None, :, None], (50, 200, 5)).ravel()
        for apart in hits:
            found = Ordered(gaps, pieces=pieces.astype(np.int16) if apart else None).percentile(0.5)
            found = found if apart else of_independent(0.5)(gaps)
            hits[apart] += found.low <= 1 <= found.high
    assert hits[True] >= 180
    assert hits[False] <= 60


def test_where_some_are_open_correlation_counts_too() -> None:
    rng = np.random.default_rng(4)
    runs = latencies(rng, 600, 0.8)
    watched = rng.exponential(6, runs.shape)
    hits = [
        found.low <= 1 <= found.high
        for found in (
            Ordered(np.minimum(one, limit), one > limit).percentile(0.5)
            for one, limit in zip(runs, watched, strict=True)
        )
    ]
    assert np.mean(hits) >= 0.90


def test_few_groups_and_equal_samples_are_taken_as_independent() -> None:
    assert spread(np.ones(19), 5.0) == INDEPENDENT
    assert spread(np.zeros(100), 0.0) == INDEPENDENT
    found = Ordered(np.ones(100)).percentile(0.5)
    assert (found.low, found.high) == (1, 1)


def test_a_trend_is_worth_few_samples_and_says_so() -> None:
    found = Ordered(np.arange(100.0)).percentile(0.95)
    assert found.value == pytest.approx(94.05)
    assert found.high == 99
    assert found.warning is not None
    assert found.warning.startswith("100 correlated samples are worth ")


@pytest.mark.parametrize("freedom", [1, 2, 5, 30, 1000])
def test_students_quantile(freedom: int) -> None:
    assert student(freedom) == pytest.approx(t.ppf(0.975, freedom), rel=1e-9)


def test_neighbours_are_grouped_evenly() -> None:
    assert in_order(5).tolist() == [0, 1, 2, 3, 4]
    counts = np.bincount(in_order(5000))
    assert (len(counts), counts.min(), counts.max()) == (MOST_GROUPS, 4, 5)


def test_kaplan_meier_is_scipys() -> None:
    rng = np.random.default_rng(5)
    times, is_open = rng.integers(1, 60, 300).astype(float), rng.random(300) < 0.3
    expected = ecdf(CensoredData.right_censored(times, is_open)).cdf
    found = Ordered(times, is_open)
    n = int((~is_open).sum())
    for rank in range(1, n + 1):
        index = int(np.searchsorted(expected.probabilities, rank / n - 1e-12))
        assert found.at(rank) == (
            expected.quantiles[index] if index < len(expected.quantiles) else pytest.approx(math.nan, nan_ok=True)
        )


def test_ratio_of_two_runs() -> None:
    old, new = Estimate(10, 9, 12, 100), Estimate(20, 18, 22, 80)
    found = ratio(new, old)
    assert (found.value, found.n) == (pytest.approx(2), 80)
    # logarithms of 20/18 and 12/10, then of 22/20 and 10/9, each pair at right angles
    assert found.low == pytest.approx(2 * math.exp(-math.hypot(math.log(20 / 18), math.log(1.2))))
    assert found.high == pytest.approx(2 * math.exp(math.hypot(math.log(1.1), math.log(10 / 9))))
    assert math.isnan(ratio(new, withheld(5, "n too small: 5, needs 59")).value)
    assert ratio(withheld(5, "n too small: 5, needs 59"), old).warning == "n too small: 5, needs 59"
    assert math.isnan(ratio(Estimate(0, 0, 0, 9), old).value)


@pytest.mark.parametrize("quantile", QUANTILES)
def test_the_ratio_covers_one_where_nothing_changed(quantile: float) -> None:
    rng = np.random.default_rng(6)
    olds, news = latencies(rng, 600, 0.7), latencies(rng, 600, 0.7)
    found = [
        ratio(Ordered(new).percentile(quantile), Ordered(old).percentile(quantile))
        for new, old in zip(news, olds, strict=True)
    ]
    assert np.mean([one.low <= 1 <= one.high for one in found]) >= 0.92
    assert np.median([one.high / one.low for one in found]) < 3


def test_it_is_fast_enough() -> None:
    """7 metrics of 5,000 requests, and a million gaps: in processor time, with room for a busy machine."""
    rng = np.random.default_rng(7)
    values, gaps = rng.exponential(1, 5000), rng.integers(9000, 11000, 1_000_000).astype(np.int32)
    pieces = np.arange(len(gaps)) * MOST_GROUPS // len(gaps)
    Ordered(values).percentile(0.5)
    began = time.process_time()
    for _ in range(7):
        ordered = Ordered(values)
        estimates = [ordered.mean(), *(ordered.percentile(q) for q in (0.5, 0.95, 0.99))]
    requests_s = time.process_time() - began
    ordered = Ordered(gaps, pieces=pieces.astype(np.int16))
    estimates += [ordered.mean(), *(ordered.percentile(q) for q in (0.5, 0.95, 0.99))]
    assert not any(math.isnan(one.low) for one in estimates)
    assert requests_s < 0.5
    assert time.process_time() - began - requests_s < 1.0
