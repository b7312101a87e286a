"""Live figures: what k workers tell apart is what one would have told, and nothing grows."""

import dataclasses
import json
import random

import pytest
from ddsketch import DDSketch
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenswarm.live import ACCURACY, LATENCIES, SLOT_S, Live, Tally, open_chunks, sketch_from_dict, sketch_to_dict
from tokenswarm.record import ErrorClass, Outcome, RequestRecord

QUANTILES = (0.0, 0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0)
TTFT, TPOT, E2E = "ttft", "tpot", "e2e"


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
    sketch = DDSketch(ACCURACY)
    for value in values:
        sketch.add(value)
    return sketch


_values = st.lists(st.floats(-10, 1e5).map(lambda value: round(value, 6)), max_size=60)


@settings(deadline=None)
@given(st.lists(_values, min_size=1, max_size=5))
def test_merged_sketches_of_workers_equal_one_sketch_of_all(parts: list[list[float]]) -> None:
    merged = DDSketch(ACCURACY)
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
        assert sketch.get_quantile_value(quantile) == pytest.approx(values[round(quantile * 1000)], rel=ACCURACY)


def test_sketches_of_another_accuracy_do_not_merge() -> None:
    with pytest.raises(ValueError, match="different parameters"):
        DDSketch(0.02).merge(sketch_from_dict(sketch_to_dict(sketch_of([1.0]))))


def test_the_latencies_are_those_of_the_definitions() -> None:
    assert {TTFT, TPOT, E2E} <= set(LATENCIES)


def test_a_snapshot_tells_one_interval_and_starts_anew() -> None:
    worker, master = Live(), Live()
    worker.add(record())
    worker.add(record(outcome=Outcome.FAILED, error_class=ErrorClass.OVERLOADED, chunk_us=(), output_tokens=None))
    worker.add(record(outcome=Outcome.EMPTY, error_class=ErrorClass.EMPTY_RESPONSE, chunk_us=(), output_tokens=0))
    worker.add(record(outcome=Outcome.CANCELLED, chunk_us=(5,), output_tokens=None))
    master.merge(json.loads(json.dumps(worker.snapshot())))
    assert (master.total.ok, master.total.errors, master.total.cancelled) == (1, 2, 1)
    assert master.total.error_classes == {ErrorClass.OVERLOADED: 1, ErrorClass.EMPTY_RESPONSE: 1}
    assert master.total.quantile_s(TTFT, 0.5) == pytest.approx(0.1, rel=ACCURACY)  # of the ok one alone
    assert master.total.quantile_s(TPOT, 0.5) == pytest.approx(0.01, rel=ACCURACY)
    assert master.total.quantile_s(E2E, 0.95) == pytest.approx(0.2, rel=ACCURACY)
    empty = worker.snapshot()
    assert empty["outcomes"] == {}
    assert empty["latencies"] == {}


def test_nothing_told_is_unknown_not_zero() -> None:
    live = Live()
    assert live.recent().quantile_s(TTFT, 0.5) is None
    assert live.recent().tokens_per_s is None
    assert live.recent().requests_per_s is None
    assert (live.total.ok, live.total.errors) == (0, 0)


def snapshot(tally: Tally, source: str, tokens: float, seconds: float) -> dict[str, object]:
    tally.arrived[source], tally.seconds[source] = tokens, seconds
    return tally.to_dict()


def test_rates_of_workers_add_up_whatever_their_intervals() -> None:
    live = Live()
    live.merge(snapshot(Tally(), "a", 300.0, 3.0))
    live.merge(snapshot(Tally(), "a", 100.0, 1.0))
    live.merge(snapshot(Tally(), "b", 50.0, 1.0))
    assert live.recent().tokens_per_s == pytest.approx(150.0)


def test_tokens_of_open_answers_count_as_they_come_and_once() -> None:
    live = Live()
    start_s = live._since_s
    told = [live.snapshot(40, start_s + 1), live.snapshot(100, start_s + 2)]
    live.add(record(tokens=110))  # was open with 100 chunks
    told.append(live.snapshot(0, start_s + 3))
    (source,) = told[0]["arrived"]
    assert [one["arrived"][source] for one in told] == [40, 60, 10]
    assert [one["seconds"][source] for one in told] == pytest.approx([1, 1, 1])


def test_chunks_of_several_tokens_are_counted_as_tokens_once_known() -> None:
    live = Live()
    live.add(record(tokens=40, chunk_us=tuple(range(10))))
    live.add(record(output_tokens=None, chunk_us=tuple(range(5)), outcome=Outcome.FAILED))
    told = live.snapshot(chunks_open=3)
    assert sum(told["arrived"].values()) == 40 + 5 * 4 + 3 * 4


def test_open_chunks_are_those_parsed_and_those_waiting() -> None:
    @dataclasses.dataclass
    class Held:
        arrivals: list[int] = dataclasses.field(default_factory=list)
        chunk_marks: list[int] = dataclasses.field(default_factory=list)

    @dataclasses.dataclass
    class Reading:
        exchange: Held
        answer: Held | None

    readings = [Reading(Held(arrivals=[1, 2]), Held(chunk_marks=[1, 2, 3])), Reading(Held(arrivals=[1]), None)]
    assert open_chunks(readings) == 6  # type: ignore[arg-type]


def test_a_step_starts_anew_and_the_run_goes_on() -> None:
    worker, master = Live(), Live()
    worker.add(record(ttft_us=1_000_000))
    master.merge(worker.snapshot(), now_s=100.0)
    master.begin_step(now_s=101.0)
    assert master.recent(now_s=101.0).ok == 0
    worker.add(record(ttft_us=50_000))
    master.merge(worker.snapshot(), now_s=102.0)
    assert (master.total.ok, master.step.ok, master.recent(now_s=102.0).ok) == (2, 1, 1)
    assert master.step.quantile_s(TTFT, 1.0) == pytest.approx(0.05, rel=ACCURACY)
    assert master.total.quantile_s(TTFT, 1.0) == pytest.approx(1.0, rel=ACCURACY)


def test_recent_forgets() -> None:
    live = Live()
    live.begin_step(now_s=0.0)

    def merge_at(now_s: float) -> None:
        tally = Tally()
        tally.add(record())
        live.merge(tally.to_dict(), now_s=now_s)

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


def test_memory_is_bounded() -> None:
    """What travels and what is held does not grow with the number of requests, whatever their latencies are."""
    live, source = Live(), random.Random(1)
    sizes = []
    for _ in range(3):
        for _ in range(2000):
            live.add(record(ttft_us=int(10 ** source.uniform(0, 10)), tokens=2))
        told = live.snapshot()
        sizes.append(len(json.dumps(told)))
        live.merge(told)
    assert max(sizes) < 100_000
    bins = [len(sketch._store.bins) for sketch in live.total.latencies.values()]
    assert max(bins) <= 1280  # from 1 µs to 10,000 s at 1 %, in whole blocks of 128
