"""The offset's sign, its bound, and what counts where several rounds differ."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.load import clock_offsets_us
from tokenswarm.clients import client_info
from tokenswarm.clock_offset import ROUNDS, ClockOffset, Rounds, best, of_round, over_run

way_s = st.floats(0, 5)


@given(st.floats(-1e6, 1e6), way_s, way_s)
def test_the_truth_is_within_the_bound(ahead_s: float, there_s: float, back_s: float) -> None:
    """The worker's clock is `ahead_s` ahead; a message takes `there_s`, its answer `back_s`, however unequal."""
    sent_s = 1000.0  # by the master's clock, as the next two
    met_s = sent_s + there_s
    heard_s = met_s + back_s
    found = of_round(sent_s + ahead_s, met_s, heard_s + ahead_s)
    rounding_s = 1e-8
    assert abs(found.offset_s - ahead_s) <= found.uncertainty_s + rounding_s
    assert found.uncertainty_s == pytest.approx((there_s + back_s) / 2, abs=rounding_s)


def test_a_clock_that_is_ahead_has_a_positive_offset_as_the_analysis_reads_it() -> None:
    """The worker says 12.0 when the master says 10.0: its rows are to be moved back by 2 s."""
    found = of_round(12.0, 10.1, 12.2)
    assert found == ClockOffset(pytest.approx(2.0), pytest.approx(0.1))
    client = client_info(clock=found, rows=0)
    assert clock_offsets_us({"clients": {"w1": client}}) == {"w1": pytest.approx(2e6)}
    assert clock_offsets_us({"clients": {"w1": client_info(clock=None, rows=0)}}) == {}


def test_the_quickest_round_counts_and_one_in_which_the_clock_was_set_back_does_not() -> None:
    rounds = [of_round(0.0, 5.0, 0.4), of_round(1.0, 6.0, 1.1), of_round(2.0, 7.0, 1.5), of_round(3.0, 8.0, 3.2)]
    assert best(rounds) == rounds[1]
    assert best(rounds[2:3]) is None
    assert best([]) is None


def test_over_a_run() -> None:
    quick, slow, moved = ClockOffset(2.0, 0.1), ClockOffset(2.3, 0.5), ClockOffset(2.5, 0.1)
    assert over_run(quick, slow) == over_run(slow, quick) == quick
    assert over_run(quick, moved) == ClockOffset(pytest.approx(2.25), pytest.approx(0.35)), "it went apart: both are in"
    assert over_run(None, slow) == over_run(slow, None) == slow
    assert over_run(None, None) is None


class Master:
    """Answers at once, by a clock that the worker's is ahead of; each round takes longer than the one before."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s, self.now_s, self.asked = ahead_s, 100.0, 0
        self.rounds = Rounds(self.ask, lambda: self.now_s + self.ahead_s)

    def ask(self, asked: dict[str, int]) -> None:
        self.asked += 1
        self.now_s += self.asked * 0.001
        at = self.now_s
        self.now_s += self.asked * 0.003
        self.rounds.answered({"number": asked["number"], "at": at})
        self.rounds.answered({"number": asked["number"] - 1, "at": -1.0})  # late, of a round that was given up


@pytest.mark.parametrize("ahead_s", [3600.0, -0.25, 0.0])
def test_measured_by_messages(ahead_s: float) -> None:
    """A worker with another clock than its master's."""
    master = Master(ahead_s)
    found = master.rounds.measure()
    assert master.asked == ROUNDS
    assert found == ClockOffset(pytest.approx(ahead_s + 0.001), pytest.approx(0.002)), (
        "the first round was the quickest"
    )


def test_a_master_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenswarm.clock_offset.ANSWER_LIMIT_S", 0.01)
    assert Rounds(lambda asked: None).measure() is None
