"""The window of a step while it is measured: which requests and chunks count, by the report's rules.

A request belongs to where it was sent (in an open loop: scheduled), a chunk to where it arrived. The master decides the
windows and tells them to all processes with users.
"""

import bisect
import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tokenswarm.live_sketch import Gaps, add_gaps
from tokenswarm.live_tally import E2E, ITL, TOKENS, TPOT, TTFO, TTFT, Tally
from tokenswarm.long_work import Breathe, hold_breath
from tokenswarm.metrics import derive
from tokenswarm.record import Caution, HealthRecord, Outcome, RequestRecord

if TYPE_CHECKING:
    from tokenswarm.digest import Reading

COMPLETED = "completed"  # ok requests that ended inside the window
BUSY_S = "busy_s"  # seconds that requests were in flight inside the window, all together
MOST_OPEN = 3  # windows that requests can still belong to: their own, and those that have just closed


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """[begin_s, end_s) of a step, epoch seconds; `end_s` None where nobody knows yet when it ends."""

    step: int
    begin_s: float
    end_s: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def holds(self, at_s: float) -> bool:
        return self.begin_s <= at_s and (self.end_s is None or at_s < self.end_s)

    def overlap_s(self, from_s: float, until_s: float) -> float:
        """How much of [from_s, until_s) lies inside."""
        end_s = until_s if self.end_s is None else min(until_s, self.end_s)
        return max(0.0, end_s - max(from_s, self.begin_s))

    def chunks(self, sent_at: float, chunk_us: tuple[int, ...]) -> tuple[int, int]:
        """First and behind the last of those chunks that arrived inside."""
        first = bisect.bisect_left(chunk_us, round((self.begin_s - sent_at) * 1e6))
        if self.end_s is None:
            return first, len(chunk_us)
        return first, bisect.bisect_left(chunk_us, round((self.end_s - sent_at) * 1e6))


def add_to_window(
    tally: Tally, window: Window, record: RequestRecord, gaps: Gaps | None, breathe: Breathe = hold_breath
) -> None:
    """Book what of an ended request belongs to `window`; `gaps`: those between all its chunks."""
    first, behind = window.chunks(record.sent_at, record.chunk_us)
    if behind > first:
        _add_tokens(tally, record, first, behind)
        if record.outcome in (Outcome.OK, Outcome.CANCELLED):
            if behind - first < len(record.chunk_us):
                gaps = Gaps.between(record.chunk_us[max(first, 1) - 1 : behind], breathe)
            add_gaps(tally.sketches[ITL], gaps)
    ended_at = record.sent_at + ended_us(record) / 1e6
    busy_s = window.overlap_s(record.sent_at, ended_at)
    tally.counts[BUSY_S] = tally.counts.get(BUSY_S, 0) + busy_s
    if record.outcome is Outcome.OK and window.holds(ended_at):
        tally.counts[COMPLETED] = tally.counts.get(COMPLETED, 0) + 1
        if not record.chunk_us:
            tally.counts[TOKENS] = tally.counts.get(TOKENS, 0) + (record.output_tokens or 0)
    due_s = record.sent_at if record.scheduled_at is None else record.scheduled_at
    if window.holds(due_s):
        tally.count(record)
        _add_latencies(tally, window, record, due_s, ended_at)


def ended_us(record: RequestRecord) -> int:
    if record.ended_us is not None:
        return record.ended_us
    return record.chunk_us[-1] if record.chunk_us else 0


def _add_tokens(tally: Tally, record: RequestRecord, first: int, behind: int) -> None:
    """The tokens of an answer, spread evenly over its chunks unless the server told; a token a chunk where nobody did."""
    if record.chunk_tokens is not None:
        tokens = float(sum(record.chunk_tokens[first:behind]))
    elif record.output_tokens is not None:
        hidden = (record.reasoning_tokens or 0) if Caution.HIDDEN_REASONING in record.warnings else 0
        tokens = max(record.output_tokens - hidden, 0) * (behind - first) / len(record.chunk_us)
    else:
        tokens = float(behind - first)
    tally.counts[TOKENS] = tally.counts.get(TOKENS, 0) + tokens


def _add_latencies(tally: Tally, window: Window, record: RequestRecord, due_s: float, ended_at: float) -> None:
    if record.outcome not in (Outcome.OK, Outcome.CANCELLED):
        return
    derived = derive(record)
    slip_s = record.sent_at - due_s
    watched_s = min(ended_at, window.end_s if window.end_s is not None else ended_at) - due_s
    stopped = record.outcome is Outcome.CANCELLED
    e2e_s = derived[E2E]
    is_open = stopped or (window.end_s is not None and due_s + (e2e_s or 0.0) >= window.end_s)
    first_s = record.chunk_us[0] / 1e6 + slip_s if record.chunk_us else None
    answer_s = record.first_answer_us / 1e6 + slip_s if record.first_answer_us is not None else None
    for name, value in ((TTFT, first_s), (TTFO, answer_s)):
        if value is not None:
            tally.sketches[name].add(value)
        elif stopped:
            tally.still_open[name].add(ended_at - due_s)
    if not is_open:
        for name in (E2E, TPOT):
            value = derived[name]
            if value is not None:
                tally.sketches[name].add(value)
        return
    tally.still_open[E2E].add(max(watched_s, 0.0))
    most_tokens = record.output_tokens if record.output_tokens is not None else record.max_tokens
    if first_s is not None and most_tokens is not None and most_tokens > 1:
        tally.still_open[TPOT].add(max(watched_s - first_s, 0.0) / (most_tokens - 1))


def open_in_window(window: Window, readings: Iterable["Reading"], at_s: float) -> tuple[int, float]:
    """Of unfinished answers: chunks that arrived inside, and seconds in flight inside until now, epoch `at_s`."""
    begin_ns = round(window.begin_s * 1e9)
    end_ns = None if window.end_s is None else round(window.end_s * 1e9)
    found, busy_s = 0, 0.0
    for reading in readings:
        if reading.exchange.sent_ns:
            busy_s += window.overlap_s(reading.exchange.sent_ns / 1e9, at_s)
        marks = () if reading.answer is None else reading.answer.marks
        first = bisect.bisect_left(marks, begin_ns)
        found += (len(marks) if end_ns is None else bisect.bisect_left(marks, end_ns)) - first
        found += sum(begin_ns <= at and (end_ns is None or at < end_ns) for at in reading.exchange.unread_ns)
    return found, busy_s


class Windows:
    """In a process with users: the last few windows and what belongs to each since the last `take`."""

    def __init__(self) -> None:
        self._windows: dict[int, Window] = {}
        self._tallies: dict[int, Tally] = {}

    def tell(self, window: Window) -> None:
        """A window begins, or its end is known now."""
        self._windows[window.step] = window
        while len(self._windows) > MOST_OPEN:
            del self._windows[min(self._windows)]

    def add(self, record: RequestRecord, gaps: Gaps | None, breathe: Breathe = hold_breath) -> None:
        """A request that has ended; `gaps`: those between all its chunks."""
        began, ended = record.sent_at, record.sent_at + ended_us(record) / 1e6
        for window in self._windows.values():
            if ended >= window.begin_s and (window.end_s is None or began < window.end_s):
                add_to_window(self._tally(window.step), window, record, gaps, breathe)

    def add_health(self, row: HealthRecord) -> None:
        for window in self._windows.values():
            if window.begin_s < row.at and (window.end_s is None or row.at <= window.end_s):
                self._tally(window.step).add_health(row)

    def _tally(self, step: int) -> Tally:
        return self._tallies.setdefault(step, Tally())

    def take(self) -> dict[str, dict[str, Any]]:
        """Step → its tally since the last call, as plain data."""
        taken, self._tallies = self._tallies, {}
        return {str(step): tally.to_dict() for step, tally in taken.items()}

    def unfinished(self, readings: Iterable["Reading"], at_s: float) -> dict[str, tuple[int, float]]:
        """Step → what of unfinished answers is in its window at epoch `at_s` (`open_in_window`)."""
        held = list(readings)
        return {str(window.step): open_in_window(window, held, at_s) for window in self._windows.values()}
