"""Figures while a run goes on, for watching, never for judging: counts, tokens, and sketches of latencies that merge.

Each process with users adds its records and hands on one snapshot per report interval: a plain dict, as JSON and
msgpack take it. The master merges the snapshots of all. Memory does not grow with the length of a run: sketches have a
relative accuracy of 1 %, so a microsecond and a day lie about a thousand bins apart.
"""

import dataclasses
import time
import typing
import uuid
from collections.abc import Iterable
from typing import Any

from ddsketch import DDSketch

from tokenswarm.metrics import METRICS, Kind, derive
from tokenswarm.record import Outcome, RequestRecord

if typing.TYPE_CHECKING:
    from tokenswarm.digest import Reading

ACCURACY = 0.01  # relative, of every quantile
SLOT_S = 10.0  # `recent` looks back at least one and at most two of these
LATENCIES = tuple(metric.name for metric in METRICS.values() if metric.kind is Kind.REQUEST and metric.unit == "s")


def sketch_to_dict(sketch: DDSketch) -> dict[str, Any]:
    """All that `sketch` knows: filled bins as [key, count], so that `sketch_from_dict` makes its equal."""
    empty = sketch.count == 0
    return {
        "bins": _filled(sketch._store),
        "negative": _filled(sketch._negative_store),
        "zero": sketch._zero_count,
        "sum": sketch._sum,
        "min": None if empty else sketch._min,
        "max": None if empty else sketch._max,
    }


def _filled(store: Any) -> list[list[float]]:
    return [[store.offset + index, held] for index, held in enumerate(store.bins) if held]


def sketch_from_dict(held: dict[str, Any]) -> DDSketch:
    sketch = DDSketch(ACCURACY)
    for store, bins in ((sketch._store, held["bins"]), (sketch._negative_store, held["negative"])):
        for key, number in bins:
            store.add(key, number)
    if held["min"] is not None:
        sketch._zero_count, sketch._sum = held["zero"], held["sum"]
        sketch._min, sketch._max = held["min"], held["max"]
        sketch._count = sketch._store.count + sketch._negative_store.count + sketch._zero_count
    return sketch


class Tally:
    """What ended, how, and how fast, over some stretch of time."""

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.error_classes: dict[str, int] = {}
        self.latencies = {name: DDSketch(ACCURACY) for name in LATENCIES}
        self.arrived: dict[str, float] = {}  # source → output tokens
        self.seconds: dict[str, float] = {}  # source → length of the stretch that it has told of

    def add(self, record: RequestRecord) -> None:
        _add(self.outcomes, {record.outcome.value: 1})
        if record.error_class is not None:
            _add(self.error_classes, {record.error_class.value: 1})
        derived = derive(record)
        for name, sketch in self.latencies.items():
            value = derived[name]
            if value is not None:
                sketch.add(value)

    def merge(self, other: "Tally") -> None:
        _add(self.outcomes, other.outcomes)
        _add(self.error_classes, other.error_classes)
        _add(self.arrived, other.arrived)
        _add(self.seconds, other.seconds)
        for name, sketch in self.latencies.items():
            sketch.merge(other.latencies[name])

    def to_dict(self) -> dict[str, Any]:
        return {
            "outcomes": dict(self.outcomes),
            "error_classes": dict(self.error_classes),
            "arrived": dict(self.arrived),
            "seconds": dict(self.seconds),
            "latencies": {name: sketch_to_dict(sketch) for name, sketch in self.latencies.items() if sketch.count},
        }

    @classmethod
    def from_dict(cls, held: dict[str, Any]) -> "Tally":
        tally = cls()
        for name in ("outcomes", "error_classes", "arrived", "seconds"):
            getattr(tally, name).update(held[name])
        for name, sketch in held["latencies"].items():
            tally.latencies[name] = sketch_from_dict(sketch)
        return tally

    @property
    def ok(self) -> int:
        return self.outcomes.get(Outcome.OK.value, 0)

    @property
    def errors(self) -> int:
        """Requests that were not ok; those that we cancelled are not among them."""
        return self.outcomes.get(Outcome.FAILED.value, 0) + self.outcomes.get(Outcome.EMPTY.value, 0)

    @property
    def cancelled(self) -> int:
        return self.outcomes.get(Outcome.CANCELLED.value, 0)

    def quantile_s(self, metric: str, quantile: float) -> float | None:
        """Of a latency (one of LATENCIES), in seconds; None where no request had one."""
        value = self.latencies[metric].get_quantile_value(quantile)
        return None if value is None else float(value)

    @property
    def tokens_per_s(self) -> float | None:
        """Output tokens that arrived per second, all sources together; None before the first was told of."""
        told = [source for source, seconds in self.seconds.items() if seconds > 0]
        if not told:
            return None
        # an answer on its way from open to finished may be missing for an interval: that is no negative speed
        return max(0.0, sum(self.arrived.get(source, 0.0) / self.seconds[source] for source in told))

    @property
    def requests_per_s(self) -> float | None:
        """Requests that ended well per second of the longest told of; None before the first."""
        longest_s = max(self.seconds.values(), default=0.0)
        return self.ok / longest_s if longest_s > 0 else None


def _add(mine: dict[str, Any], others: dict[str, Any]) -> None:
    for name, number in others.items():
        mine[name] = mine.get(name, 0) + number


@dataclasses.dataclass(slots=True)
class _Arrivals:
    """Output tokens so far. The tokens of an open answer are estimated by its chunks until its usage is known."""

    finished_tokens: float = 0.0
    counted_tokens: int = 0  # of finished answers that told their tokens, and their chunks
    counted_chunks: int = 0
    told: float = 0.0  # what snapshots have said already

    def add(self, record: RequestRecord) -> None:
        if record.output_tokens is None:
            self.finished_tokens += self._estimate(len(record.chunk_us))
            return
        self.finished_tokens += record.output_tokens
        if record.chunk_us:
            self.counted_tokens += record.output_tokens
            self.counted_chunks += len(record.chunk_us)

    def _estimate(self, chunks: int) -> float:
        return chunks * self.counted_tokens / self.counted_chunks if self.counted_chunks else float(chunks)

    def take(self, open_chunks: int) -> float:
        """Tokens since the last call. What an estimate got wrong is made good in the call after the answer's end."""
        total = self.finished_tokens + self._estimate(open_chunks)
        since, self.told = total - self.told, total
        return since


def open_chunks(readings: Iterable["Reading"]) -> int:
    """Chunks that have come of unfinished answers (`Digest.open`), parsed or not. A few carry no output."""
    return sum(
        len(reading.exchange.arrivals) + (0 if reading.answer is None else len(reading.answer.chunk_marks))
        for reading in readings
    )


class Live:
    """In a process with users: `add` records, `snapshot` now and then. At the master: `merge` snapshots and read.

    `total` is the whole run, `step` what was merged since `begin_step`.
    """

    def __init__(self) -> None:
        self.total = Tally()
        self.step = Tally()
        self._source = uuid.uuid4().hex[:8]
        self._interval = Tally()
        self._arrivals = _Arrivals()
        self._since_s = time.monotonic()
        self._slots = (Tally(), Tally())  # before, now
        self._slot_until_s = self._since_s + SLOT_S

    def add(self, record: RequestRecord) -> None:
        self._interval.add(record)
        self._arrivals.add(record)

    def snapshot(self, chunks_open: int = 0, now_s: float | None = None) -> dict[str, Any]:
        """What happened since the last snapshot, as plain data.

        `chunks_open`: `open_chunks` now; without it tokens count when their answer ends. `now_s`: monotonic time.
        """
        now_s = time.monotonic() if now_s is None else now_s
        told, self._interval = self._interval, Tally()
        told.arrived[self._source] = self._arrivals.take(chunks_open)
        told.seconds[self._source] = now_s - self._since_s
        self._since_s = now_s
        return told.to_dict()

    def merge(self, snapshot: dict[str, Any], now_s: float | None = None) -> None:
        """Take in a snapshot of any process, at the monotonic time `now_s` of this one."""
        self._turn(time.monotonic() if now_s is None else now_s)
        told = Tally.from_dict(snapshot)
        for tally in (self.total, self.step, self._slots[1]):
            tally.merge(told)

    def begin_step(self, now_s: float | None = None) -> None:
        """A step begins: `step` and `recent` start anew."""
        self.step = Tally()
        self._slots = (Tally(), Tally())
        self._slot_until_s = (time.monotonic() if now_s is None else now_s) + SLOT_S

    def recent(self, now_s: float | None = None) -> Tally:
        """The last SLOT_S to 2·SLOT_S seconds, but not what came before this step."""
        self._turn(time.monotonic() if now_s is None else now_s)
        both = Tally()
        for slot in self._slots:
            both.merge(slot)
        return both

    def _turn(self, now_s: float) -> None:
        if now_s < self._slot_until_s:
            return
        before = self._slots[1] if now_s < self._slot_until_s + SLOT_S else Tally()
        self._slots = (before, Tally())
        self._slot_until_s = now_s + SLOT_S
