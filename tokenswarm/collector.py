"""One reader for all streams of a process: every read is stamped with the time at which the kernel received the data.

A batching server emits a token for every stream in the same instant. A client that stamps a token when its event loop
gets round to it books its own queue on the server; here the kernel's `SO_TIMESTAMPNS` stamp comes with the data, so data
read late still has its true time. What lateness can still cost is resolution: chunks that the kernel has merged before
they were read share one time (`coalesced`). So reading comes first: sockets stay registered in ONE epoll object, whose own
descriptor is watched by the gevent hub, and whoever works long in this process calls `read_if_due` in between.

A collector belongs to one process and its hub: make it after a fork, never before.
"""

import contextlib
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

import gevent
from gevent import monkey

from tokenswarm.chunk_framing import CHUNK_HEADS, CHUNK_TAIL, LANE_BYTES
from tokenswarm.exchange import Exchange

EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLET = 0x1, 0x4, 0x2000, 1 << 31
# edge-triggered: level-triggered, epoll looks at each socket a second time after it was read; EPOLLRDHUP, since the end
# of a stream that comes with its last bytes makes no edge of its own
READING = EPOLLIN | EPOLLRDHUP | EPOLLET
SO_TIMESTAMPNS = 35  # Linux; Python's socket module does not name it
READ_BYTES = 65536
ANCILLARY_BYTES = 64  # one cmsghdr with a timespec takes 32
# Work between two looks at the sockets; the longest single piece of work comes on top. Where few streams flow, one of
# them may be fast, and looks cost next to nothing.
DUE_NS = 300_000
DUE_FEW_NS = 40_000
FEW_STREAMS = 8

now_ns = time.time_ns  # CLOCK_REALTIME, the clock of the kernel's stamps
timespec = struct.Struct("qq").unpack

PlainSocket = monkey.get_original("socket", "socket")


def stamp_arrivals(sock: socket.socket) -> None:
    """Ask the kernel to stamp what arrives; where it cannot, reads are stamped by this process."""
    if sys.platform == "linux":  # elsewhere the number means something else
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


Ancillary = list[tuple[int, int, bytes]]


class Readable(Protocol):
    """What the collector drives: a connection. `arrived_ns`: when what it read last arrived."""

    arrived_ns: int

    def ready(self, events: int) -> None: ...

    def received(self, data: bytes, ancillary: Ancillary, read_ns: int) -> None: ...

    def broke(self, error: OSError) -> None: ...


# A connection between two chunks of an answer, with all that reading the next one needs: `recvmsg` of its socket, where to
# append the chunk and its arrival, the exchange. What turns out to be no chunk is the connection's.
Lane = tuple[Callable[..., Any], Callable[[bytes], None], Callable[[int], None], Exchange, Readable]


class Collector:
    """The epoll object, its watcher, and counters of what was read since they were last taken.

    Where the system has no epoll, each socket has a watcher of its own: a greenlet switch a read more.
    """

    def __init__(self) -> None:
        self._readers: dict[int, Readable] = {}
        self.lanes: dict[int, Lane] = {}  # by the socket's descriptor
        self._looked_ns = 0
        self.reads = 0
        self.unstamped_reads = 0  # of them, without a kernel stamp
        self.lag_max_ns = 0  # longest time between an arrival and the end of the round that read it
        # the kernel begins to stamp a moment after the first socket asks for it: one that lives as long as the collector
        # asks before any connection does, so that first answers are stamped too
        self._asks_for_stamps = PlainSocket(type=socket.SOCK_DGRAM)
        stamp_arrivals(self._asks_for_stamps)
        self._loop = gevent.get_hub().loop
        # under monkey patching select.epoll is gone: this is the original
        epoll = monkey.saved.get("select", {}).get("epoll") or getattr(select, "epoll", None)
        self._epoll = epoll() if epoll is not None else None
        self._watchers: dict[int, Any] = {}
        if self._epoll is not None:
            self._watcher = self._loop.io(self._epoll.fileno(), 1)
            self._watcher.start(self.read)

    def register(self, fd: int, reader: Readable) -> None:
        self._readers[fd] = reader
        if self._epoll is not None:
            self._epoll.register(fd, READING)
        else:
            self._watch(fd, 1)

    def want_write(self, fd: int, wanted: bool) -> None:
        if self._epoll is not None:
            self._epoll.modify(fd, READING | EPOLLOUT if wanted else READING)
        else:
            self._watch(fd, 3 if wanted else 1)

    def look_again(self, fd: int) -> None:
        """A reader has left something unread: its socket is to be reported once more."""
        if self._epoll is not None and fd in self._readers:
            self._epoll.modify(fd, READING)

    def unregister(self, fd: int) -> None:
        self.lanes.pop(fd, None)
        if self._readers.pop(fd, None) is None:
            return
        if self._epoll is not None:
            self._epoll.unregister(fd)
        else:
            self._unwatch(fd)

    def read(self) -> None:
        """Read every socket that has data. Never switches greenlets, so it may be called from anywhere."""
        if self._epoll is None:
            return
        readers, lanes, arrived_ns = self._readers, self.lanes, 0
        events = self._epoll.poll(0, 1024)
        for fd, event in events:
            lane = lanes.get(fd)
            if lane is None or event != EPOLLIN:
                reader = readers.get(fd)
                if reader is not None:  # else: closed by a reader earlier in this round
                    reader.ready(event)
                    arrived_ns = reader.arrived_ns
                continue
            # the hot path, written out: a call more is 3 % of what a token costs
            recvmsg, append, append_ns, exchange, reader = lane
            try:
                data, ancillary, _, _ = recvmsg(LANE_BYTES, ANCILLARY_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                reader.broke(error)
                continue
            read_ns = now_ns()
            heads = CHUNK_HEADS[len(data)]
            if heads is not None and ancillary and data.startswith(heads) and data.endswith(CHUNK_TAIL):
                seconds, nanos = timespec(ancillary[0][2])
                arrived_ns = seconds * 1_000_000_000 + nanos
                append_ns(arrived_ns)
                append(data[len(heads[0]) : -2])
                if read_ns - arrived_ns > exchange.lag_max_ns:
                    exchange.lag_max_ns = read_ns - arrived_ns
                continue
            reader.received(data, ancillary, read_ns)
            if len(data) == LANE_BYTES:  # there may be more
                reader.ready(event)
            arrived_ns = reader.arrived_ns
        self._looked_ns = now_ns()
        if arrived_ns:
            self.reads += len(events)
            lag_ns = self._looked_ns - arrived_ns  # of the one that had to wait longest
            if lag_ns > self.lag_max_ns:
                self.lag_max_ns = lag_ns

    def read_if_due(self) -> None:
        """Look at the sockets if the last look is too long ago. For every loop that works while streams flow."""
        if now_ns() - self._looked_ns > self.due_ns:
            self.read()

    @property
    def due_ns(self) -> int:
        """How long one may work without a look at the sockets."""
        return DUE_NS if len(self._readers) > FEW_STREAMS else DUE_FEW_NS

    @property
    def few_streams(self) -> bool:
        return len(self._readers) <= FEW_STREAMS

    def _watch(self, fd: int, events: int) -> None:
        self._unwatch(fd)
        self._watchers[fd] = watcher = self._loop.io(fd, events)
        watcher.start(self._watched, fd, EPOLLIN | EPOLLOUT if events & 2 else EPOLLIN)

    def _unwatch(self, fd: int) -> None:
        watcher = self._watchers.pop(fd, None)
        if watcher is not None:
            watcher.stop()
            watcher.close()

    def _watched(self, fd: int, events: int) -> None:
        reader = self._readers.get(fd)
        if reader is not None:
            self.reads += 1
            reader.ready(events)

    def close(self) -> None:
        if self._epoll is not None:
            self._watcher.stop()
            self._watcher.close()
            self._epoll.close()
        for fd in list(self._watchers):
            self._unwatch(fd)
        self._asks_for_stamps.close()
