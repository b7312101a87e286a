"""Capacity under objectives, on summaries made by hand."""

import math
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from steps_on_paper import a_queue, a_step, table

from analysis import names, slo
from analysis.capacity import Capacity, capacity
from analysis.judged import Met
from analysis.replicas import replicas
from tokenswarm.slo import names as slo_names

SLOS = {"ttft_p95": 0.5, "error_ratio": 0.05}


def ttfts(*pairs: tuple[int, float], **more: float) -> pd.DataFrame:
    """Steps of (users, TTFT p95 in s)."""
    return table([a_step(users, p95_s / 2, **more) for users, p95_s in pairs])


def test_the_largest_that_meets_the_first_that_does_not_and_the_line_between() -> None:
    found = capacity(ttfts((1, 0.1), (5, 0.2), (20, 0.4), (50, 1.0)), SLOS)
    assert found.largest is not None
    assert found.first_missed is not None
    assert (found.largest.users, found.largest.met) == (20, Met.SURE)
    assert (found.first_missed.users, found.first_missed.met) == (50, Met.MISSED_SURE)
    assert found.crossing is not None
    assert found.crossing.objective.name == "ttft_p95"
    assert found.crossing.value == pytest.approx(20 + 30 * 0.1 / 0.6)  # 0.4 s + 0.1 s of the 0.6 s between
    # The upper ends of the intervals, 0.42 and 1.05 s, pass 0.5 s earlier; the lower ones, 0.38 and 0.95 s, later.
    assert found.crossing.low == pytest.approx(20 + 30 * 0.08 / 0.63)
    assert found.crossing.high == pytest.approx(20 + 30 * 0.12 / 0.57)
    assert (found.again, found.no_evidence, found.unjudged) == ((), (), ())


@pytest.mark.parametrize(
    ("p95_s", "met"),
    [(0.4, Met.SURE), (0.49, Met.MET), (0.51, Met.MISSED), (0.6, Met.MISSED_SURE)],
)
def test_the_interval_says_how_surely(p95_s: float, met: Met) -> None:
    (step,) = capacity(ttfts((5, p95_s)), {"ttft_p95": 0.5}).steps
    assert step.met is met


def test_a_withheld_p95_is_missed_where_the_median_is_already() -> None:
    nothing = {names.stat(names.TTFT, "p95", end): math.nan for end in ("", names.LOW, names.HIGH)}
    (step,) = capacity(table([a_step(5, 0.6, **nothing)]), {"ttft_p95": 0.5}).steps
    assert (step.met, math.isnan(step.objectives[0].value)) == (Met.MISSED_SURE, True)
    (step,) = capacity(table([a_step(5, 0.51, **nothing)]), {"ttft_p95": 0.5}).steps
    assert step.met is Met.MISSED
    (step,) = capacity(table([a_step(5, 0.4, **nothing)]), {"ttft_p95": 0.5}).steps
    assert step.met is Met.UNKNOWN  # a median within the limit shows nothing of a p95


def test_nothing_is_claimed_beyond_the_largest_step() -> None:
    found = capacity(ttfts((1, 0.1), (5, 0.2)), SLOS)
    assert found.largest is not None
    assert (found.largest.users, found.first_missed, found.crossing) == (5, None, None)


def test_where_the_smallest_step_misses_no_load_is_named() -> None:
    found = capacity(ttfts((5, 0.9), (20, 2.0)), SLOS)
    assert found.first_missed is not None
    assert (found.largest, found.first_missed.users, found.crossing) == (None, 5, None)


def test_an_optimistic_end_that_is_never_reached_is_open() -> None:
    found = capacity(ttfts((1, 0.1), (5, 0.51)), {"ttft_p95": 0.5})
    assert found.crossing is not None
    assert found.crossing.high is None
    assert found.crossing.low == pytest.approx(1 + 4 * (0.5 - 0.105) / (0.5355 - 0.105))


def test_an_invalid_step_is_no_evidence() -> None:
    rows = [a_step(1, 0.05), a_step(5, 0.9, verdict="invalid"), a_step(20, 0.1, verdict="suspect")]
    found = capacity(table(rows), SLOS)
    assert found.largest is not None
    assert (found.largest.users, found.first_missed, found.no_evidence) == (20, None, (5,))


def test_a_later_step_that_meets_again_is_named_and_not_counted() -> None:
    found = capacity(ttfts((1, 0.1), (5, 0.9), (20, 0.3)), SLOS)
    assert found.largest is not None
    assert found.largest.users == 1
    assert [step.users for step in found.again] == [20]


def test_a_load_measured_twice_meets_only_if_both_times() -> None:
    found = capacity(table([a_step(1, 0.05), a_step(5, 0.1, step=2), a_step(5, 0.9, step=3)]), SLOS)
    assert found.largest is not None
    assert found.largest.users == 1
    assert [step.step for step in found.again] == [2]


def test_errors_have_the_interval_of_their_counts() -> None:
    """1 of 100 failed: Clopper and Pearson give 0.025 % to 5.45 %."""
    row = a_step(5, error_ratio=0.01, requests_sent=100, requests_ok=99, requests_failed=1)
    (step,) = capacity(table([row]), {"error_ratio": 0.05}).steps
    (judged,) = step.objectives
    assert (judged.low, judged.high) == (pytest.approx(0.000253, rel=1e-2), pytest.approx(0.05446, rel=1e-3))
    assert judged.met is Met.MET
    (step,) = capacity(table([a_step(5, requests_sent=100, requests_ok=100)]), {"error_ratio": 0.05}).steps
    assert (step.objectives[0].low, step.met) == (0.0, Met.SURE)
    assert step.objectives[0].high == pytest.approx(1 - 0.025 ** (1 / 100))


def test_more_is_better_for_a_rate() -> None:
    row = {f"user_tokens_per_s_p05{end}": value for end, value in (("", 30.0), ("_low", 28.0), ("_high", 31.0))}
    slow = {name: value / 2 for name, value in row.items()}
    found = capacity(table([a_step(1, **row), a_step(5, **slow)]), {"user_tokens_per_s_p05": 20})
    assert [step.met for step in found.steps] == [Met.SURE, Met.MISSED_SURE]
    assert found.crossing is not None
    assert found.crossing.value == pytest.approx(1 + 4 * 10 / 15)
    assert found.crossing.low == pytest.approx(1 + 4 * 8 / 14)


def test_an_objective_of_no_figure_is_named() -> None:
    found = capacity(ttfts((1, 0.1)), {"ttft": 0.5, "ttft_p95": 0.5, "speed": 1})
    assert (found.unjudged, len(found.steps[0].objectives)) == (("speed", "ttft"), 1)
    assert capacity(ttfts((1, 0.1)), {}).steps == ()


def test_every_objective_that_can_be_written_has_a_column() -> None:
    from pathlib import Path

    from analysis.pipeline import analyse  # the real summary's columns, not those on paper

    folder = Path(__file__).parent / "golden" / "run"
    columns = set(analyse(folder).summary.columns)
    found, unknown = slo.objectives(dict.fromkeys(slo_names(), 1.0))
    assert (unknown, len(found)) == ([], len(slo_names()))
    for objective in found:
        assert objective.column() in columns
        if objective.statistic is not None:
            assert {objective.column(names.LOW), objective.column(names.HIGH)} <= columns


def test_a_queue_of_known_capacity() -> None:
    """Ten places, 1.05 s each: 12 users wait 0.21 s, so TTFT p95 reaches 1 s at 10 × (1 + 0.45 / 1.05) = 14.3."""
    found = capacity(a_queue([1, 5, 10, 12, 16, 20], 10), {"ttft_p95": 1.0})
    assert found.largest is not None
    assert found.first_missed is not None
    assert found.crossing is not None
    assert (found.largest.users, found.first_missed.users) == (12, 16)
    assert found.crossing.value == pytest.approx(10 * (1 + 0.45 / 1.05))


rows = st.lists(
    st.tuples(st.integers(1, 60), st.floats(0.01, 5), st.sampled_from(["valid", "suspect", "invalid"])),
    min_size=1,
    max_size=7,
    unique_by=lambda row: row[0],
)


@settings(deadline=None, max_examples=25)
@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_steps_changes_nothing(steps: list[tuple[int, float, str]], rng: random.Random) -> None:
    made = [a_step(users, ttft_s, verdict=verdict) for users, ttft_s, verdict in steps]
    shuffled = made[:]
    rng.shuffle(shuffled)
    assert capacity(table(shuffled), SLOS) == capacity(table(made), SLOS)


@settings(deadline=None, max_examples=25)
@given(rows, st.sampled_from([0.25, 2.0, 1024.0]))
def test_another_unit_of_time_changes_no_capacity(steps: list[tuple[int, float, str]], factor: float) -> None:
    def load(scale: float) -> Capacity:
        made = [a_step(users, ttft_s * scale, 0.02 * scale, verdict=verdict) for users, ttft_s, verdict in steps]
        return capacity(table(made), {"ttft_p95": 0.5 * scale})

    one, other = load(1), load(factor)
    assert [step.met for step in one.steps] == [step.met for step in other.steps]
    assert (one.largest is None, one.crossing is None) == (other.largest is None, other.crossing is None)
    if one.crossing is not None and other.crossing is not None:
        assert other.crossing.value == pytest.approx(one.crossing.value)


@settings(deadline=None, max_examples=25)
@given(rows)
def test_no_answer_lies_beyond_what_was_measured(steps: list[tuple[int, float, str]]) -> None:
    found = capacity(table([a_step(users, ttft_s, verdict=verdict) for users, ttft_s, verdict in steps]), SLOS)
    measured = [users for users, _, verdict in steps if verdict != "invalid"]
    if found.largest is not None:
        assert found.largest.users in measured
    if found.crossing is not None:
        assert found.largest is not None
        assert found.first_missed is not None
        assert found.largest.concurrency <= found.crossing.value <= found.first_missed.concurrency
        ends = [end for end in (found.crossing.low, found.crossing.high) if end is not None]
        assert all(min(measured) <= end <= max(measured) for end in ends)
        assert (found.crossing.low or 0) <= found.crossing.value <= (found.crossing.high or np.inf)


def test_replicas_on_paper() -> None:
    found = capacity(ttfts((1, 0.1), (20, 0.4), (50, 1.0)), SLOS)
    answer = replicas(found, 100, 0.3)
    assert answer is not None
    assert (answer.count, answer.per_replica, answer.at_most) == (8, 20, False)  # 100 / 14 = 7.1
    exact = replicas(found, 14, 0.3)
    assert exact is not None
    assert exact.count == 1  # 14 are 70 % of 20
    bounded = replicas(capacity(ttfts((20, 0.4)), SLOS), 20, 0)
    assert bounded is not None
    assert (bounded.count, bounded.at_most) == (1, True)
    assert replicas(capacity(ttfts((20, 2.0)), SLOS), 100) is None
    for users, headroom in ((0, 0.3), (5, 1.0), (5, -0.1)):
        with pytest.raises(ValueError, match="expected users"):
            replicas(found, users, headroom)
