"""Figures while a run goes on: each process with users adds its records and hands on one snapshot per report interval.

A snapshot is a plain dict, as JSON and msgpack take it, and the master merges those of all. Memory does not grow with the
length of a run. For watching: what is judged are the rows in the run folder, by the same definitions.
"""

import dataclasses
import time
import typing
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from tokenswarm.live_sketch import Gaps
from tokenswarm.live_tally import TOKENS, Tally
from tokenswarm.live_window import BUSY_S, Window, Windows
from tokenswarm.long_work import Breathe, hold_breath
from tokenswarm.record import HealthRecord, RequestRecord

if typing.TYPE_CHECKING:
    from tokenswarm.digest import Reading

SLOT_S = 5.0  # `recent` looks back at least one and at most two of these


@dataclasses.dataclass(slots=True)
class _Arrivals:
    """Output tokens so far. The tokens of an open answer are estimated by its chunks until its usage is known."""

    finished_tokens: float = 0.0
    counted_tokens: int = 0  # of finished answers that told their tokens, and their chunks
    counted_chunks: int = 0
    told: float = 0.0  # what snapshots have said already

    def add(self, record: RequestRecord) -> None:
        if record.output_tokens is None:
            self.finished_tokens += self.estimate(len(record.chunk_us))
            return
        self.finished_tokens += record.output_tokens
        if record.chunk_us:
            self.counted_tokens += record.output_tokens
            self.counted_chunks += len(record.chunk_us)

    def estimate(self, chunks: int) -> float:
        return chunks * self.counted_tokens / self.counted_chunks if self.counted_chunks else float(chunks)

    def take(self, open_chunks: int) -> float:
        """Tokens since the last call. What an estimate got wrong is made good in the call after the answer's end."""
        total = self.finished_tokens + self.estimate(open_chunks)
        since, self.told = total - self.told, total
        return since


def open_chunks(readings: Iterable["Reading"]) -> int:
    """Chunks that have come of unfinished answers (`Digest.open`), parsed or not. A few carry no output."""
    return sum(
        len(reading.exchange.unread) + (0 if reading.answer is None else len(reading.answer.marks))
        for reading in readings
    )


class Live:
    """In a process with users: `add` what has ended, `snapshot` once a report interval.

    `breathe` is called in between, where a long answer makes long work.
    """

    def __init__(self, breathe: Breathe = hold_breath) -> None:
        self.windows = Windows()
        self._breathe = breathe
        self._source = uuid.uuid4().hex[:8]
        self._interval = Tally()
        self._arrivals = _Arrivals()
        self._since_s = time.monotonic()

    def add(self, record: RequestRecord) -> None:
        gaps = Gaps.between(record.chunk_us, self._breathe)
        self._interval.add(record, gaps)
        self._arrivals.add(record)
        self.windows.add(record, gaps, self._breathe)

    def add_health(self, row: HealthRecord) -> None:
        self._interval.add_health(row)
        self.windows.add_health(row)

    def snapshot(self, readings: Iterable["Reading"] = (), now_s: float | None = None) -> dict[str, Any]:
        """What happened since the last snapshot, as plain data.

        `readings`: unfinished answers; without them tokens count when their answer ends. `now_s`: monotonic time.
        """
        now_s = time.monotonic() if now_s is None else now_s
        readings = list(readings)
        told, self._interval = self._interval, Tally()
        told.arrived[self._source] = self._arrivals.take(open_chunks(readings))
        told.seconds[self._source] = now_s - self._since_s
        self._since_s = now_s
        at_s = time.time()
        unfinished = self.windows.unfinished(readings, at_s)
        return {
            "at": at_s,
            "interval": told.to_dict(),
            "steps": self.windows.take(),
            "unfinished": {
                step: {TOKENS: self._arrivals.estimate(chunks), BUSY_S: busy_s}
                for step, (chunks, busy_s) in unfinished.items()
            },
        }


class StepLive:
    """What is known of a step's window so far."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self.tally = Tally()
        self.counts: dict[str, dict[str, float]] = {}  # process → counts of its finished requests
        self.unfinished: dict[str, dict[str, float]] = {}  # process → those of its unfinished ones, as it told last

    def merge(self, source: str, tally: Tally) -> None:
        self.tally.merge(tally)
        held = self.counts.setdefault(source, {})
        for name, number in tally.counts.items():
            held[name] = held.get(name, 0.0) + number

    def length_s(self, told_at: float) -> float:
        """How much of the window had passed when somebody told at `told_at`, epoch s."""
        return self.window.overlap_s(self.window.begin_s, told_at)

    def per_s(self, name: str, told_at: Mapping[str, float]) -> float | None:
        """A count per second of the window: each process over the time that it has told of, all together.

        `told_at`: process → when it told last; one that is gone has not told since, but its time goes on.
        """
        latest = max(told_at.values(), default=self.window.begin_s)
        found, is_told = 0.0, False
        for source in self.counts.keys() | self.unfinished.keys():
            length_s = self.length_s(told_at.get(source, latest))
            counted = self.counts.get(source, {}).get(name, 0.0) + self.unfinished.get(source, {}).get(name, 0.0)
            if length_s > 0:
                found, is_told = found + counted / length_s, True
        return found if is_told else None


class LiveRun:
    """At the master: `merge` the snapshots of all, and read. `total` is the whole run."""

    def __init__(self) -> None:
        self.total = Tally()
        self.steps: dict[int, StepLive] = {}
        self.told_at: dict[str, float] = {}  # process → when it told last, epoch s
        self._slots = (Tally(), Tally())  # before, now
        self._slot_until_s = time.monotonic() + SLOT_S

    def merge(self, source: str, snapshot: dict[str, Any], now_s: float | None = None) -> None:
        """Take in a snapshot of the process `source`, at the monotonic time `now_s` of this one."""
        self._turn(time.monotonic() if now_s is None else now_s)
        told = Tally.from_dict(snapshot["interval"])
        self.total.merge(told)
        self._slots[1].merge(told)
        self.told_at[source] = snapshot["at"]
        for step, tally in snapshot["steps"].items():
            if int(step) in self.steps:
                self.steps[int(step)].merge(source, Tally.from_dict(tally))
        for step, unfinished in snapshot["unfinished"].items():
            if int(step) in self.steps:
                self.steps[int(step)].unfinished[source] = unfinished

    def tell(self, window: Window) -> None:
        """A window begins, or its end is known now."""
        if window.step in self.steps:
            self.steps[window.step].window = window
        else:
            self.steps[window.step] = StepLive(window)

    def lose(self, source: str) -> None:
        """The process is gone, and with it its unfinished answers: they have no row."""
        self.told_at.pop(source, None)
        for step in self.steps.values():
            step.unfinished.pop(source, None)

    def reset(self) -> None:
        """Watch from now on. Steps keep what they measured."""
        self.total = Tally()
        self.forget_recent()

    def forget_recent(self, now_s: float | None = None) -> None:
        self._slots = (Tally(), Tally())
        self._slot_until_s = (time.monotonic() if now_s is None else now_s) + SLOT_S

    def recent(self, now_s: float | None = None) -> Tally:
        """The last SLOT_S to 2·SLOT_S seconds."""
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
