"""Live figures: what k workers tell apart is what one would have told, and nothing grows."""

import dataclasses
import itertools
import json
import random
from typing import Any

import pytest
from ddsketch import DDSketch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenswarm.live import SLOT_S, Live, LiveRun, StepLive, open_chunks
from tokenswarm.live_sketch import (
    ACCURACY,
    TABLE_US,
    Gaps,
    add_gaps,
    new_sketch,
    share_above,
    sketch_from_dict,
    sketch_to_dict,
)
from tokenswarm.live_tally import LATENCIES, TOKENS, Tally
from tokenswarm.live_window import BUSY_S, Window
from tokenswarm.long_work import PART
from tokenswarm.record import ErrorClass, Outcome, RequestRecord

QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0)
TTFT, TPOT, E2E, ITL = "ttft", "tpot", "e2e", "itl"


def record(ttft_us: int = 100_000, tokens: int = 11, gap_us: int = 10_000, **more: object) -> RequestRecord:
    given = {
        "request_id": "r",
        "worker": "w",
        "user": "u",
        "task": "chat",
        "sent_at": 1.0,
        "chunk_us": tuple(range(ttft_us, ttft_us + tokens * gap_us, gap_us)),
        "outcome": Outcome.OK,
        "output_tokens": tokens,
    }
    return RequestRecord(**(given | more))  # type: ignore[arg-type]


def sketch_of(values: list[float]) -> DDSketch:
    sketch = new_sketch()
    for value in values:
        sketch.add(value)
    return sketch


_values = st.lists(st.floats(-10, 1e5).map(lambda value: round(value, 6)), max_size=60)


@settings(deadline=None)
@given(st.lists(_values, min_size=1, max_size=5))
def test_merged_sketches_of_workers_equal_one_sketch_of_all(parts: list[list[float]]) -> None:
    merged = new_sketch()
    for part in parts:
        merged.merge(sketch_from_dict(json.loads(json.dumps(sketch_to_dict(sketch_of(part))))))
    together = sketch_of([value for part in parts for value in part])
    ours, theirs = sketch_to_dict(merged), sketch_to_dict(together)
    assert ours.pop("sum") == pytest.approx(theirs.pop("sum"))
    assert ours == theirs
    assert [merged.get_quantile_value(q) for q in QUANTILES] == [together.get_quantile_value(q) for q in QUANTILES]
    assert merged.count == together.count


def test_quantiles_are_true_to_one_percent() -> None:
    source = random.Random(5)
    values = sorted(source.lognormvariate(-2, 1) for _ in range(1001))
    sketch = sketch_from_dict(sketch_to_dict(sketch_of(values)))
    for quantile in (0.0, 0.5, 0.95, 0.99, 1.0):
        expected = pytest.approx(values[round(quantile * 1000)], rel=ACCURACY)
        assert sketch.get_quantile_value(quantile) == expected


def test_sketches_of_another_accuracy_do_not_merge() -> None:
    with pytest.raises(ValueError, match="different parameters"):
        DDSketch(0.02).merge(sketch_from_dict(sketch_to_dict(sketch_of([1.0]))))


def test_the_latencies_are_those_of_the_definitions() -> None:
    assert {TTFT, TPOT, E2E} <= set(LATENCIES)


def test_a_snapshot_tells_one_interval_and_starts_anew() -> None:
    worker, master = Live(), LiveRun()
    worker.add(record())
    worker.add(record(outcome=Outcome.FAILED, error_class=ErrorClass.OVERLOADED, chunk_us=(), output_tokens=None))
    worker.add(record(outcome=Outcome.EMPTY, error_class=ErrorClass.EMPTY_RESPONSE, chunk_us=(), output_tokens=0))
    worker.add(record(outcome=Outcome.CANCELLED, chunk_us=(5,), output_tokens=None))
    master.merge("w", json.loads(json.dumps(worker.snapshot())))
    assert (master.total.ok, master.total.errors, master.total.cancelled) == (1, 2, 1)
    assert master.total.error_classes == {ErrorClass.OVERLOADED: 1, ErrorClass.EMPTY_RESPONSE: 1}
    assert master.total.quantile_s(TTFT, 0.5) == pytest.approx(0.1, rel=ACCURACY)  # of the ok one alone
    assert master.total.quantile_s(TPOT, 0.5) == pytest.approx(0.01, rel=ACCURACY)
    assert master.total.quantile_s(E2E, 0.95) == pytest.approx(0.2, rel=ACCURACY)
    assert master.total.quantile_s(ITL, 0.5) == pytest.approx(0.01, rel=ACCURACY)
    empty = worker.snapshot()["interval"]
    assert empty["outcomes"] == {}
    assert empty["latencies"] == {}


def test_nothing_told_is_unknown_not_zero() -> None:
    live = LiveRun()
    assert live.recent().quantile_s(TTFT, 0.5) is None
    assert live.recent().tokens_per_s is None
    assert live.recent().requests_per_s is None
    assert (live.total.ok, live.total.errors) == (0, 0)


def snapshot(tally: Tally, source: str, tokens: float, seconds: float) -> dict[str, object]:
    tally.arrived[source], tally.seconds[source] = tokens, seconds
    return told(tally)


def told(tally: Tally) -> dict[str, object]:
    return {"at": 0.0, "interval": tally.to_dict(), "steps": {}, "unfinished": {}}


def test_rates_of_workers_add_up_whatever_their_intervals() -> None:
    live = LiveRun()
    live.merge("a", snapshot(Tally(), "a", 300.0, 3.0))
    live.merge("a", snapshot(Tally(), "a", 100.0, 1.0))
    live.merge("b", snapshot(Tally(), "b", 50.0, 1.0))
    assert live.recent().tokens_per_s == pytest.approx(150.0)


@dataclasses.dataclass
class Held:
    unread: list[bytes] = dataclasses.field(default_factory=list)
    unread_ns: list[int] = dataclasses.field(default_factory=list)
    marks: list[int] = dataclasses.field(default_factory=list)
    sent_ns: int = 0


@dataclasses.dataclass
class Reading:
    exchange: Held
    answer: Held | None


def unfinished(chunks: int, first_s: float = 0.0) -> Any:
    """An open answer with a chunk every 10 ms."""
    marks = [round((first_s + number / 100) * 1e9) for number in range(chunks)]
    return Reading(Held(sent_ns=round(first_s * 1e9)), Held(marks=marks))


def test_tokens_of_open_answers_count_as_they_come_and_once() -> None:
    live = Live()
    start_s = live._since_s
    told = [live.snapshot([unfinished(40)], start_s + 1), live.snapshot([unfinished(100)], start_s + 2)]
    live.add(record(tokens=110))  # was open with 100 chunks
    told.append(live.snapshot([], start_s + 3))
    intervals = [one["interval"] for one in told]
    (source,) = intervals[0]["arrived"]
    assert [one["arrived"][source] for one in intervals] == [40, 60, 10]
    assert [one["seconds"][source] for one in intervals] == pytest.approx([1, 1, 1])


def test_chunks_of_several_tokens_are_counted_as_tokens_once_known() -> None:
    live = Live()
    live.add(record(tokens=40, chunk_us=tuple(range(10))))
    live.add(record(output_tokens=None, chunk_us=tuple(range(5)), outcome=Outcome.FAILED))
    told = live.snapshot([unfinished(3)])["interval"]
    assert sum(told["arrived"].values()) == 40 + 5 * 4 + 3 * 4


def test_open_chunks_are_those_parsed_and_those_waiting() -> None:
    readings: list[Any] = [Reading(Held([b"", b""]), Held(marks=[1, 2, 3])), Reading(Held([b""]), None)]
    assert open_chunks(readings) == 6


def test_a_step_starts_anew_and_the_run_goes_on() -> None:
    worker, master = Live(), LiveRun()
    worker.add(record(ttft_us=1_000_000))
    master.merge("w", worker.snapshot())
    for live in (worker.windows, master):
        live.tell(Window(1, 10.0, 20.0))
    worker.add(record(ttft_us=50_000, sent_at=12.0))
    worker.add(record(ttft_us=70_000, sent_at=9.0))  # in the warm-up
    master.merge("w", worker.snapshot())
    assert (master.total.ok, master.steps[1].tally.ok, master.recent().ok) == (3, 1, 3)
    assert master.steps[1].tally.quantile_s(TTFT, 1.0) == pytest.approx(0.05, rel=ACCURACY)
    assert master.total.quantile_s(TTFT, 1.0) == pytest.approx(1.0, rel=ACCURACY)
    master.reset()
    assert (master.total.ok, master.steps[1].tally.ok) == (0, 1)


def test_rates_of_a_window_hold_what_is_still_open_until_its_worker_is_lost() -> None:
    worker, master = Live(), LiveRun()
    for live in (worker.windows, master):
        live.tell(Window(1, 10.0, 10.2))
    worker.add(record(sent_at=9.95, ended_us=200_000))  # 11 tokens from 10.05 to 10.15
    master.merge("w", worker.snapshot([unfinished(50, first_s=9.9)]))  # 20 of 50 fall inside
    step, told_at = master.steps[1], master.told_at
    assert step.per_s(TOKENS, told_at) == pytest.approx((11 + 20) / 0.2)
    assert step.per_s(BUSY_S, told_at) == pytest.approx((0.15 + 0.2) / 0.2)
    master.lose("w")
    assert step.per_s(TOKENS, {"other": 10.1}) == pytest.approx(11 / 0.1)


def test_a_process_that_told_earlier_counts_for_its_own_time() -> None:
    step = StepLive(Window(1, 10.0, 20.0))
    for source, tokens in (("a", 100.0), ("b", 200.0)):
        tally = Tally()
        tally.counts[TOKENS] = tokens
        step.merge(source, tally)
    assert step.per_s(TOKENS, {"a": 11.0, "b": 12.0}) == pytest.approx(200.0)
    assert step.per_s(TOKENS, {}) is None


def test_recent_forgets() -> None:
    live = LiveRun()
    live.forget_recent(now_s=0.0)

    def merge_at(now_s: float) -> None:
        tally = Tally()
        tally.add(record(), None)
        live.merge("w", told(tally), now_s=now_s)

    merge_at(SLOT_S - 1)
    assert live.recent(now_s=SLOT_S - 1).ok == 1
    merge_at(SLOT_S + 1)
    assert live.recent(now_s=SLOT_S + 2).ok == 2
    assert live.recent(now_s=2 * SLOT_S + 2).ok == 1
    assert live.recent(now_s=3 * SLOT_S + 3).ok == 0
    merge_at(10 * SLOT_S)
    assert live.recent(now_s=10 * SLOT_S).ok == 1
    assert live.recent(now_s=20 * SLOT_S).ok == 0
    assert live.total.ok == 3


@settings(deadline=None)
@given(st.lists(st.integers(-5, 200_000), max_size=80))
@example([3] * PART)
@example([*range(2 * PART), 9 * TABLE_US, -1])
def test_gaps_added_together_are_those_added_one_by_one(gaps_us: list[int]) -> None:
    together = new_sketch()
    add_gaps(together, Gaps.between(list(itertools.accumulate(gaps_us, initial=1000))))
    found, expected = (sketch_to_dict(one) for one in (together, sketch_of([max(gap, 0) / 1e6 for gap in gaps_us])))
    assert found.pop("sum") == pytest.approx(expected.pop("sum"))
    assert found == expected


def test_share_above() -> None:
    sketch = sketch_of([0.0, 1.0, 2.0, 3.0])
    assert share_above(sketch, 1.5) == 0.5
    assert share_above(sketch, 0.0) == 0.75
    assert share_above(new_sketch(), 1.0) is None


def test_memory_is_bounded() -> None:
    """What travels and what is held does not grow with the number of requests, whatever their latencies are."""
    worker, live, source = Live(), LiveRun(), random.Random(1)
    sizes = []
    for _ in range(3):
        for _ in range(2000):
            worker.add(record(ttft_us=int(10 ** source.uniform(0, 10)), tokens=2))
        said = worker.snapshot()
        sizes.append(len(json.dumps(said)))
        live.merge("w", said)
    assert max(sizes) < 200_000
    bins = [len(sketch._store.bins) for sketch in live.total.sketches.values()]
    assert max(bins) <= 2432  # from 1 µs to 10,000 s at 0.5 %, in whole blocks of 128
