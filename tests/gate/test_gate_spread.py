"""What runs of the same thing differ by: assumed, stated, or shown by the runs themselves."""

import math

import numpy as np
import pytest

from analysis.spread import ASSUMED, LEAST_DF, STATED_DF, Figure, Spread, believed, of_runs


def figures(*values: float, sd: float = 0.0) -> list[Figure]:
    return [Figure(math.log(value), sd, 5) for value in values]


def test_runs_that_differ_by_more_than_is_assumed_say_by_how_much() -> None:
    found = of_runs([figures(1.0, 1.1, 1.21)], None)
    assert found.sd == pytest.approx(math.log(1.1), rel=1e-6)
    assert found.df == pytest.approx(LEAST_DF)
    assert of_runs([figures(*(1.1**i for i in range(9)))], None).df > LEAST_DF


def test_one_run_shows_nothing() -> None:
    assert of_runs([figures(1.0)], None) == ASSUMED
    assert of_runs([figures(1.0)], Spread(0.03, 4)) == Spread(0.03, 4)


def test_what_each_run_is_unsure_of_is_no_difference_between_runs() -> None:
    assert of_runs([figures(1.0, 1.1, 1.21, sd=0.2)], None) == ASSUMED
    part = of_runs([figures(1.0, 1.1, 1.21, sd=0.05)], None)
    assert part.sd == pytest.approx(math.sqrt(math.log(1.1) ** 2 - 0.05**2), rel=1e-6)
    assert part.df < LEAST_DF  # a difference of two estimates is less sure than each


def test_agreement_lowers_what_is_assumed_only_where_it_can_hardly_be_luck() -> None:
    two, many = figures(1.0, 1.003), figures(*(1 + 0.003 * (i % 2) for i in range(8)))
    assert of_runs([two], None) == ASSUMED
    assert 0.0015 < of_runs([many], None).sd < 0.004
    unsure = figures(*(1 + 0.003 * (i % 2) for i in range(8)), sd=0.002)
    assert of_runs([unsure], None).sd < of_runs([many], None).sd


def test_agreement_does_not_lower_what_was_stated() -> None:
    equal = figures(*[1.0] * 8)
    assert of_runs([equal], Spread(0.02)) == Spread(0.02)
    assert of_runs([equal], None) == Spread(0.0)


def test_steps_are_pooled() -> None:
    """Two steps of three runs know as much as five runs of one, whatever the level of each."""
    one, other = figures(1.0, 1.05, 1.1025), figures(3.0, 3.15, 3.3075)
    found = of_runs([one, other], None)
    assert found.sd == pytest.approx(math.log(1.05), rel=1e-6)
    assert found.df == 4


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_a_spread_is_seldom_taken_for_smaller_than_is_assumed_where_it_is_as_large(runs: int) -> None:
    random = np.random.default_rng(runs)
    drawn = [[Figure(log, 0.0, 5) for log in ASSUMED.sd * random.standard_normal(runs)] for _ in range(1000)]
    below = sum(of_runs([one], None).sd < ASSUMED.sd for one in drawn)
    assert below <= 75  # of 1000, where 50 are to be expected: three standard deviations more


def test_runs_that_agree_are_not_as_unsure_as_resampling_says() -> None:
    run, base = figures(1.0, sd=0.4)[0], figures(1.0, 1.01, 1.02, 1.0, 1.01, sd=0.4)
    sure, of_base = believed(run, base)
    assert sure.log == run.log
    assert [one.log for one in of_base] == [one.log for one in base]
    assert 0.01 < sure.sd == of_base[0].sd < 0.03
    noisier = believed(figures(1.0, sd=0.8)[0], base)[0]
    assert noisier.sd == pytest.approx(2 * sure.sd)  # a run that wavers more than the baseline's is believed to


def test_runs_that_differ_leave_the_doubt_of_each_as_it_is() -> None:
    run, base = figures(1.0, sd=0.02)[0], figures(1.0, 1.01, 1.02, 1.0, 1.01, sd=0.01)
    assert believed(run, base) == (run, base)
    assert believed(run, base[:1]) == (run, base[:1])  # one run shows nothing
    sure = figures(1.0, 1.0)
    assert believed(run, sure) == (run, sure)


def test_a_stated_spread_is_as_good_as_known() -> None:
    assert Spread(0.02).df == STATED_DF
