"""One HTTP request on the wire and what came back: bytes with their arrival times, not yet looked into."""

import dataclasses

from gevent.event import Event

from tokenswarm.errors import End


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Our own time limits, in seconds. None means no limit.

    `stall_s` counts from the last byte of any kind (comments keep a stream alive), with `stall_by_token` from the last
    token; and only after the first token: until then `first_token_s` rules.
    """

    connect_s: float | None = 10.0
    first_token_s: float | None = 300.0
    stall_s: float | None = 120.0
    total_s: float | None = 1800.0
    stall_by_token: bool = False


class Exchange:
    """A request and its answer in arrival. Written by a connection, read by the digest."""

    __slots__ = (
        "connect_us",
        "detail",
        "done",
        "end",
        "ended_ns",
        "headers",
        "headers_ns",
        "heard_ns",
        "lag_max_ns",
        "limits",
        "progress",
        "reconnected",
        "request",
        "sent_ns",
        "status",
        "tls_us",
        "unread",
        "unread_ns",
        "user_stamped",
    )

    def __init__(self, request: bytes, limits: Limits, *, progress: bool = False) -> None:
        self.request = request
        self.limits = limits
        self.sent_ns = 0  # epoch ns, just before the first byte was written
        self.connect_us: int | None = None
        self.tls_us: int | None = None
        self.reconnected = 0
        self.headers_ns: int | None = None
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        # Reads of the body that were not parsed yet, and when each arrived, in epoch ns: side by side, since pairs would
        # be as many objects for the garbage collector to look through.
        self.unread: list[bytes] = []
        self.unread_ns: list[int] = []
        self.lag_max_ns = 0
        self.user_stamped = False  # a read of this answer came without a kernel stamp
        self.heard_ns = 0  # when bytes of it last came, but for those in `unread`
        self.end: End | None = None
        self.ended_ns: int | None = None
        self.detail: str | None = None
        self.done = Event()
        self.progress = Event() if progress else None  # set at every arrival, for those who read along

    def take(self, most: int | None = None) -> tuple[list[bytes], list[int]]:
        """The first reads that were not parsed yet, and their arrivals: whoever takes them parses them."""
        reads, arrivals_ns = self.unread[:most], self.unread_ns[:most]
        del self.unread[:most], self.unread_ns[:most]  # the lists stay the same: a lane appends to them
        if arrivals_ns:
            self.heard_ns = max(self.heard_ns, arrivals_ns[-1])
        return reads, arrivals_ns

    @property
    def last_heard_ns(self) -> int:
        """When bytes of it last came, of any kind."""
        return max(self.heard_ns, self.unread_ns[-1]) if self.unread_ns else self.heard_ns

    def finish(self, end: End, at_ns: int, detail: str | None = None) -> None:
        """The answer is over. The first end counts."""
        if self.end is None:
            self.end, self.ended_ns, self.detail = end, at_ns, detail
            self.done.set()
            if self.progress is not None:
                self.progress.set()

    def reopen(self) -> None:
        """Nothing of it has reached a server: ready to be sent again, on a new connection."""
        self.end = self.ended_ns = self.detail = None
        self.done.clear()
        self.reconnected += 1

    def header(self, name: bytes) -> str | None:
        """The last value of a response header (name in lower case), or None."""
        for key, value in reversed(self.headers):
            if key == name:
                return value.decode("latin-1").strip()
        return None
