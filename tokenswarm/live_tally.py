"""What ended, how, and how fast, over some stretch of time: counts and sketches that merge, for watching a run."""

from collections.abc import Iterable
from typing import Any

from ddsketch import DDSketch

from tokenswarm.live_sketch import Gaps, add_gaps, new_sketch, quantile, sketch_from_dict, sketch_to_dict
from tokenswarm.metrics import METRICS, Kind, derive
from tokenswarm.record import HealthRecord, Outcome, RequestRecord, Stamp

TTFT, TTFO, ITL, TPOT, E2E = (METRICS[name].name for name in ("ttft", "ttfo", "itl", "tpot", "e2e"))
LATENCIES = tuple(metric.name for metric in METRICS.values() if metric.kind is Kind.REQUEST and metric.unit == "s")
LAG = "lag"  # of each request, the largest distance between an arrival and its reading
SKETCHES = (*LATENCIES, ITL, LAG)
LENGTH_FINISH = "length"  # finish_reason of an answer that ended at its token limit
TRUNCATED, CHUNKS, COALESCED, STAMPED, USER_STAMPED = "truncated", "chunks", "coalesced", "stamped", "user_stamped"
TOKENS = "tokens"  # that arrived
ROWS, CPU, USERS, IN_FLIGHT, READS, KERNEL_READS, CLOCK_US, STOLEN = (
    "rows",
    "cpu_ratio",
    "users",
    "in_flight",
    "reads",
    "kernel_reads",
    "clock_step_us",
    "stolen_ratio",
)
HEALTH_SUMS = (ROWS, CPU, USERS, IN_FLIGHT, READS, KERNEL_READS, CLOCK_US, STOLEN)
LOOP_LAG_US, BACKLOG = "loop_lag_max_us", "backlog"
HEALTH_MAXIMA = (LOOP_LAG_US, BACKLOG)


class Tally:
    """`sketches` of samples seen to their end, `still_open` of lower bounds (see `live_sketch`), both in seconds."""

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.error_classes: dict[str, int] = {}
        self.counts: dict[str, float] = {}
        self.sketches: dict[str, DDSketch] = {name: new_sketch() for name in SKETCHES}
        self.still_open: dict[str, DDSketch] = {name: new_sketch() for name in LATENCIES}
        self.arrived: dict[str, float] = {}  # source → output tokens
        self.seconds: dict[str, float] = {}  # source → length of the stretch that it has told of
        self.health: dict[str, dict[str, float]] = {}  # worker → sums and maxima over its rows

    def add(self, record: RequestRecord, gaps: Gaps | None) -> None:
        """A request that has ended, whenever it was sent; `gaps`: those between all its chunks."""
        self.count(record)
        derived = derive(record)
        for name in LATENCIES:
            value = derived[name]
            if value is not None:
                self.sketches[name].add(value)
        if record.outcome is Outcome.OK:
            add_gaps(self.sketches[ITL], gaps)

    def count(self, record: RequestRecord) -> None:
        """All but latencies and tokens."""
        _add(self.outcomes, {record.outcome.value: 1})
        if record.error_class is not None:
            _add(self.error_classes, {record.error_class.value: 1})
        if record.outcome is Outcome.OK and record.finish_reason == LENGTH_FINISH:
            _add(self.counts, {TRUNCATED: 1})
        if record.stamp is not None:
            user = record.stamp is Stamp.USER
            _add(self.counts, {STAMPED: 1, USER_STAMPED: int(user), COALESCED: record.coalesced or 0})
            _add(self.counts, {CHUNKS: len(record.chunk_us)})
            if record.lag_max_us is not None:
                self.sketches[LAG].add(record.lag_max_us / 1e6)

    def add_health(self, row: HealthRecord) -> None:
        one = {name: float(abs(getattr(row, name) or 0)) for name in (*HEALTH_SUMS[1:], *HEALTH_MAXIMA)} | {ROWS: 1.0}
        _add_health(self.health, {row.worker: one})

    def merge(self, other: "Tally") -> None:
        for mine, others in zip(self._sums(), other._sums(), strict=True):
            _add(mine, others)
        _add_health(self.health, other.health)
        for name, sketch in self.sketches.items():
            sketch.merge(other.sketches[name])
        for name, sketch in self.still_open.items():
            sketch.merge(other.still_open[name])

    def _sums(self) -> Iterable[dict[str, Any]]:
        return self.outcomes, self.error_classes, self.counts, self.arrived, self.seconds

    def to_dict(self) -> dict[str, Any]:
        return {
            "outcomes": dict(self.outcomes),
            "error_classes": dict(self.error_classes),
            "counts": dict(self.counts),
            "arrived": dict(self.arrived),
            "seconds": dict(self.seconds),
            "health": {worker: dict(sums) for worker, sums in self.health.items()},
            "latencies": _filled(self.sketches),
            "still_open": _filled(self.still_open),
        }

    @classmethod
    def from_dict(cls, held: dict[str, Any]) -> "Tally":
        tally = cls()
        for name in ("outcomes", "error_classes", "counts", "arrived", "seconds", "health"):
            getattr(tally, name).update(held[name])
        for name, sketch in held["latencies"].items():
            tally.sketches[name] = sketch_from_dict(sketch)
        for name, sketch in held["still_open"].items():
            tally.still_open[name] = sketch_from_dict(sketch)
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

    @property
    def error_ratio(self) -> float | None:
        judged = self.ok + self.errors
        return self.errors / judged if judged else None

    @property
    def truncated_ratio(self) -> float | None:
        return self.counts.get(TRUNCATED, 0.0) / self.ok if self.ok else None

    def quantile_s(self, metric: str, share: float) -> float | None:
        """Of a latency (one of LATENCIES, or ITL), in seconds; None where no request had one."""
        return quantile(self.sketches[metric], share, self.still_open.get(metric))

    def mean_s(self, metric: str) -> float | None:
        sketch = self.sketches[metric]
        return float(sketch.avg) if sketch.count else None

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


def _add_health(mine: dict[str, dict[str, float]], others: dict[str, dict[str, float]]) -> None:
    for worker, sums in others.items():
        held = mine.setdefault(worker, dict.fromkeys((*HEALTH_SUMS, *HEALTH_MAXIMA), 0.0))
        for name in HEALTH_SUMS:
            held[name] += sums[name]
        for name in HEALTH_MAXIMA:
            held[name] = max(held[name], sums[name])


def _filled(sketches: dict[str, DDSketch]) -> dict[str, Any]:
    return {name: sketch_to_dict(sketch) for name, sketch in sketches.items() if sketch.count}
