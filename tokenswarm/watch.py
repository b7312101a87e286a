"""Our own time limits, looked at twenty times a second; and how long the event loop was kept from its work."""

import gevent

from tokenswarm.collector import now_ns
from tokenswarm.digest import SLICE, Digest, Reading
from tokenswarm.errors import End
from tokenswarm.pool import Pool

TICK_S = 0.05
UNREAD_READS = 512  # fewer, of at most 64 KiB each, are within the limit
NEVER_NS = 1 << 62
UNREAD_LIMIT_BYTES = 32 * 1024 * 1024  # of one answer: beyond, it is no answer of a language model


def overdue(reading: Reading, at_ns: int) -> tuple[End, str] | None:
    """Which limit `reading` has passed at `at_ns`, and the words for it.

    Whether the first token has come is known only by parsing, so the answer is read on where that decides.
    """
    exchange, limits = reading.exchange, reading.exchange.limits
    waited_s = (at_ns - exchange.sent_ns) / 1e9
    if limits.total_s is not None and waited_s > limits.total_s:
        return End.TIMEOUT_TOTAL, f"the answer was not complete within {limits.total_s:g} s"
    first_due = limits.first_token_s is not None and waited_s > limits.first_token_s
    if not first_due and not _stalled(reading, at_ns):
        return None
    while reading.read_on(SLICE):
        pass
    begun = reading.answer is not None and bool(reading.answer.marks)
    if begun and _stalled(reading, at_ns):  # what was parsed just now may hold a later token
        what = "no token" if limits.stall_by_token else "nothing came"
        return End.TIMEOUT_STALL, f"{what} for {limits.stall_s:g} s in mid answer"
    if not begun and first_due:
        return End.TIMEOUT_FIRST_TOKEN, f"no token within {limits.first_token_s:g} s"
    return None


def _stalled(reading: Reading, at_ns: int) -> bool:
    limit_s = reading.exchange.limits.stall_s
    return limit_s is not None and (at_ns - _alive_ns(reading)) / 1e9 > limit_s


def _alive_ns(reading: Reading) -> int:
    """Since when a stall counts, or earlier where a token may be among what was not parsed yet."""
    exchange = reading.exchange
    if not exchange.limits.stall_by_token:
        return exchange.last_heard_ns
    if reading.answer is not None and reading.answer.marks:
        return reading.answer.marks[-1]
    return exchange.unread_ns[0] if exchange.unread_ns else exchange.last_heard_ns


def due_ns(reading: Reading) -> int:
    """Before this instant `reading`, that is not overdue, cannot become so."""
    exchange, limits = reading.exchange, reading.exchange.limits
    begun = reading.answer is not None and bool(reading.answer.marks)
    ends = [
        (exchange.sent_ns, limits.total_s),
        (exchange.sent_ns, None if begun else limits.first_token_s),
        (_alive_ns(reading), limits.stall_s),
    ]
    return min((since_ns + int(limit_s * 1e9) for since_ns, limit_s in ends if limit_s is not None), default=NEVER_NS)


def too_large(reading: Reading) -> tuple[End, str] | None:
    """Whether more comes than can be an answer of a language model."""
    if reading.fault is not None:
        return End.TOO_LARGE, reading.fault
    unread = reading.exchange.unread
    if len(unread) > UNREAD_READS and sum(map(len, unread)) > UNREAD_LIMIT_BYTES:
        return End.TOO_LARGE, f"more than {UNREAD_LIMIT_BYTES >> 20} MiB came faster than they could be read"
    return None


class Watch:
    """Ends exchanges that pass a limit. `lag_max_ns`: the largest lateness of a tick since it was last taken."""

    def __init__(self, pool: Pool, digest: Digest) -> None:
        self.lag_max_ns = 0
        self._pool = pool
        self._digest = digest
        self._greenlet = gevent.spawn(self._work)

    def close(self) -> None:
        self._greenlet.kill()

    def _work(self) -> None:
        while True:
            tick_ns = now_ns() + int(TICK_S * 1e9)
            gevent.sleep(TICK_S)
            at_ns = now_ns()
            self.lag_max_ns = max(self.lag_max_ns, at_ns - tick_ns)
            for reading in list(self._digest.open):
                # hundreds of streams, twenty times a second: what cannot be is not looked at
                if at_ns >= reading.due_ns or reading.fault is not None or len(reading.exchange.unread) > UNREAD_READS:
                    self._look(reading, at_ns)

    def _look(self, reading: Reading, at_ns: int) -> None:
        connection = self._pool.carried.get(reading.exchange)
        if connection is None:  # still connecting: that has a limit of its own
            return
        passed = too_large(reading) or overdue(reading, at_ns)
        if passed is None:
            reading.due_ns = due_ns(reading)
        else:
            connection.abandon(*passed)
