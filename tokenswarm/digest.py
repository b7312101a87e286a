"""Answers are read when nothing else has to be: parsing, classifying and recording, in slices, by one greenlet.

In a closed loop many streams end in the same tick, and all their users want to send the next request at once. Parsing
there and then would keep the process from reading the others' tokens for as long. So finished answers queue here, are
parsed in slices of well under a millisecond, and between two slices the sockets are looked at. When no finished answer
waits, what has come of the open ones is parsed too: memory stays bounded however long a stream is, and the live figures
know of tokens that belong to no finished request yet.
"""

import collections
from collections.abc import Callable

import gevent
from gevent.event import Event

from tokenswarm.asked import Asked
from tokenswarm.assembly import assemble
from tokenswarm.chat_stream import Answer
from tokenswarm.collector import Collector, now_ns
from tokenswarm.errors import End
from tokenswarm.exchange import Exchange
from tokenswarm.long_work import Breathe, hold_breath
from tokenswarm.record import RequestRecord
from tokenswarm.sse import LineTooLong

SLICE = 96  # reads parsed between two looks at the sockets: about 0.2 ms
SLICE_OF_FEW = 4  # where few streams flow, one of them may bring a token every 70 µs
OPEN_STREAMS_EVERY_S = 0.1
OPEN_STREAM_READS = 64  # fewer than these are left to wait: to begin costs as much as to read ten


class DigestError(RuntimeError):
    """Reading answers has ended by a mistake of ours, which is its cause: nothing more can be recorded."""


class Reading:
    """An exchange and how far its answer has been read. `record` is there once `recorded` is set.

    `due_ns`: before this instant it cannot pass a time limit.
    """

    __slots__ = ("answer", "asked", "due_ns", "exchange", "fault", "keep_text", "record", "recorded")

    def __init__(self, asked: Asked, exchange: Exchange, keep_text: bool) -> None:
        self.asked = asked
        self.exchange = exchange
        self.keep_text = keep_text
        self.due_ns = 0
        self.answer: Answer | None = None
        self.fault: str | None = None  # what cannot be read on, in words
        self.record: RequestRecord | None = None
        self.recorded = Event()

    def read_on(self, most: int) -> int:
        """Parse up to `most` waiting arrivals; how many there were. Nothing is parsed before the headers are there."""
        exchange = self.exchange
        if self.answer is None:
            if exchange.status is None:
                return 0
            self.answer = Answer(
                exchange.header(b"content-type"), exchange.header(b"content-encoding"), keep_text=self.keep_text
            )
        reads, arrivals_ns = exchange.take(most)
        if self.fault is None:
            try:
                self.answer.feed_all(reads, arrivals_ns)
            except LineTooLong as error:
                self.fault = str(error)
        return len(reads)

    def close(self) -> None:
        """The last arrival was read: what stands open in the answer is closed."""
        exchange = self.exchange
        if self.answer is not None and self.fault is None:
            try:
                self.answer.close(exchange.ended_ns or exchange.sent_ns)
            except LineTooLong as error:
                self.fault = str(error)

    def assemble(self, breathe: Breathe = hold_breath) -> None:
        """Make the record, after `close`."""
        exchange, end = self.exchange, self.exchange.end
        assert end is not None
        if self.fault is not None:
            end, exchange.detail = End.TOO_LARGE, self.fault
        self.record = assemble(self.asked, exchange, self.answer, end, breathe)


class Digest:
    """The queue of finished answers and the greenlet that reads them. `on_record` is called once for each.

    `on_death` is called if the greenlet dies: a mistake of ours in reading or recording.
    """

    def __init__(
        self,
        collector: Collector,
        on_record: Callable[[Reading], None],
        on_death: Callable[[BaseException], None] = lambda _: None,
    ) -> None:
        self.open: set[Reading] = set()
        self._collector = collector
        self._on_record = on_record
        self._on_death = on_death
        self._finished: collections.deque[Reading] = collections.deque()
        self._yielded_ns = 0  # when others could last run
        self._wake = Event()
        self._idle = Event()
        self._idle.set()
        self._greenlet = gevent.spawn(self._work)
        self._greenlet.link_exception(lambda _: self._died())

    @property
    def backlog(self) -> int:
        """Finished answers that wait."""
        return len(self._finished)

    def begin(self, reading: Reading) -> None:
        self.open.add(reading)

    def end(self, reading: Reading, *, urgent: bool = False) -> None:
        """The exchange is over. `urgent`: somebody waits for its text."""
        self.open.discard(reading)
        (self._finished.appendleft if urgent else self._finished.append)(reading)
        self._idle.clear()
        self._wake.set()

    def drain(self, limit_s: float | None = None) -> bool:
        """Wait until every finished answer has been recorded; False if that took longer than `limit_s`."""
        drained = bool(self._idle.wait(limit_s))
        self.check()
        return drained

    def check(self) -> None:
        """Raise DigestError if the digest has died: of a mistake in reading or recording, never of the server's."""
        if self._greenlet.exception is not None:
            raise DigestError("answers cannot be read any more") from self._greenlet.exception

    def _died(self) -> None:
        self._idle.set()
        self._on_death(self._greenlet.exception)

    def close(self) -> None:
        self._greenlet.kill()

    def _work(self) -> None:
        next_look_ns = 0
        while True:
            if self._finished:
                self._finish(self._finished.popleft())
                continue
            self._idle.set()
            if now_ns() >= next_look_ns:
                self._read_open_streams()
                next_look_ns = now_ns() + int(OPEN_STREAMS_EVERY_S * 1e9)
            self._wake.clear()
            if not self._finished:
                self._wake.wait(OPEN_STREAMS_EVERY_S)

    def _finish(self, reading: Reading) -> None:
        while reading.read_on(self._slice()):
            self._breathe()
        reading.close()
        self._collector.read_if_due()
        reading.assemble(self._collector.read_if_due)
        self._collector.read_if_due()
        self._on_record(reading)
        reading.recorded.set()
        self._breathe()

    def _read_open_streams(self) -> None:
        parsed = 0  # since the sockets were last looked at
        for reading in list(self.open):
            while len(reading.exchange.unread) >= OPEN_STREAM_READS and not self._finished:
                parsed += reading.read_on(max(self._slice() - parsed, 1))
                if parsed >= self._slice():
                    parsed = 0
                    self._breathe()
            if reading.answer is not None:
                reading.answer.fold()

    def _slice(self) -> int:
        return SLICE_OF_FEW if self._collector.few_streams else SLICE

    def _breathe(self) -> None:
        """Reading the sockets comes first, then the users that want to send: both as soon as they are due."""
        self._collector.read_if_due()
        if now_ns() - self._yielded_ns > self._collector.due_ns:
            gevent.sleep(0)
            self._yielded_ns = now_ns()
