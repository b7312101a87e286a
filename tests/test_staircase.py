"""The staircase as tables: ticks of (time, users) → users that should run."""

import pytest

from tokenswarm.by_hand import StepsByHand
from tokenswarm.record import StepRecord
from tokenswarm.staircase import SETTLE_LIMIT_S, Staircase


def climb(steps: list[int], hold_s: float, ticks: list[tuple[float, int]]) -> tuple[list[int | None], list[StepRecord]]:
    ended: list[StepRecord] = []
    staircase = Staircase(steps, hold_s, ended.append)
    return [staircase.tick(at, users) for at, users in ticks], ended


def test_a_hold_counts_from_the_moment_all_users_are_up() -> None:
    asked, ended = climb([2, 3], 10, [(0, 0), (1, 1), (5, 2), (14.9, 2), (15, 2), (16, 3), (26, 3)])
    assert asked == [2, 2, 2, 2, 3, 3, None]
    assert ended == [
        StepRecord(step=1, target_users=2, started_at=0, settled_at=5, ended_at=15),
        StepRecord(step=2, target_users=3, started_at=15, settled_at=16, ended_at=26),
    ]


def test_going_down_settles_too() -> None:
    asked, ended = climb([3, 1], 2, [(0, 0), (1, 3), (3, 3), (4, 2), (5, 1), (7, 1)])
    assert asked == [3, 3, 1, 1, 1, None]
    assert ended[1].settled_at == 5


def test_users_that_never_come_do_not_hold_the_run_up() -> None:
    """A lost worker's users: after a while without one more, the step is held with those that are there."""
    late = SETTLE_LIMIT_S + 1.5
    asked, ended = climb([4], 2, [(0, 0), (1, 2), (SETTLE_LIMIT_S, 2), (late, 2), (late + 2, 2)])
    assert asked == [4, 4, 4, 4, None]
    assert ended[0].settled_at == late


def test_slow_starters_are_waited_for() -> None:
    ticks = [(0.0, 0), *((10.0 * number, number) for number in range(1, 5))]
    asked, _ = climb([4], 100, ticks)
    assert asked == [4] * 5


def test_stopped_in_mid_step() -> None:
    ended: list[StepRecord] = []
    staircase = Staircase([2, 3], 10, ended.append)
    for at, users in ((0, 0), (1, 2)):
        staircase.tick(at, users)
    staircase.stop(4)
    staircase.stop(5)
    assert staircase.tick(6, 2) is None, "nothing begins after the stop"
    assert not staircase.complete
    assert ended == [StepRecord(step=1, target_users=2, started_at=0, settled_at=1, ended_at=4)]
    assert staircase.last == ended[0]


@pytest.mark.parametrize(("at", "left_s"), [(1, 10), (4, 7), (11, 0), (15, 0)])
def test_seconds_that_are_left(at: float, left_s: float) -> None:
    staircase = Staircase([2], 10, lambda _: None)
    staircase.tick(0, 0)
    assert staircase.left_s(0) is None
    staircase.tick(1, 2)
    assert staircase.left_s(at) == left_s


def test_by_hand_a_step_begins_whenever_the_number_of_users_has_changed() -> None:
    ended: list[StepRecord] = []
    steps = StepsByHand(0.0, ended.append)
    steps.settled(1.0, 3)
    steps.settled(2.0, 3)  # a rebalancing
    steps.settled(5.0, 8)
    assert steps.steps == (3, 8)
    steps.settled(6.0, 0)
    steps.stop(9.5)
    steps.stop(10.0)
    assert ended == [
        StepRecord(step=1, target_users=3, started_at=0.0, settled_at=1.0, ended_at=5.0),
        StepRecord(step=2, target_users=8, started_at=5.0, settled_at=5.0, ended_at=9.5),
    ]
    assert steps.hold_s == 4.5
