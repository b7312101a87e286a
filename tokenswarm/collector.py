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
import time
from typing import Protocol

import gevent
from gevent import monkey

EPOLLIN, EPOLLOUT = 1, 4
SO_TIMESTAMPNS = 35  # Linux; Python's socket module does not name it
ANCILLARY_BYTES = 64  # one cmsghdr with a timespec takes 32
DUE_NS = 300_000  # work between two looks at the sockets; the longest single piece of work comes on top

now_ns = time.time_ns  # CLOCK_REALTIME, the clock of the kernel's stamps
timespec = struct.Struct("qq").unpack


PlainSocket = monkey.get_original("socket", "socket")


def stamp_arrivals(sock: socket.socket) -> None:
    """Ask the kernel to stamp what arrives; where it cannot, reads are stamped by this process."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


class Readable(Protocol):
    """What the collector drives: a connection."""

    def ready(self, events: int) -> None: ...


class Collector:
    """The epoll object, its watcher, and counters of what was read since they were last taken."""

    def __init__(self) -> None:
        # under monkey patching select.epoll is gone: this is the original
        self._epoll = (monkey.saved.get("select", {}).get("epoll") or select.epoll)()
        self._readers: dict[int, Readable] = {}
        self._looked_ns = 0
        self.reads = self.kernel_reads = self.chunks = 0
        self.lag_max_ns = 0  # longest time between an arrival and its read
        # the kernel begins to stamp a moment after the first socket asks for it: one that lives as long as the collector
        # asks before any connection does, so that first answers are stamped too
        self._asks_for_stamps = PlainSocket(type=socket.SOCK_DGRAM)
        stamp_arrivals(self._asks_for_stamps)
        self._watcher = gevent.get_hub().loop.io(self._epoll.fileno(), 1)
        self._watcher.start(self.read)

    def register(self, fd: int, reader: Readable) -> None:
        self._readers[fd] = reader
        self._epoll.register(fd, EPOLLIN)

    def want_write(self, fd: int, wanted: bool) -> None:
        self._epoll.modify(fd, EPOLLIN | EPOLLOUT if wanted else EPOLLIN)

    def unregister(self, fd: int) -> None:
        if self._readers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def read(self) -> None:
        """Read every socket that has data, once. Never switches greenlets, so it may be called from anywhere."""
        readers = self._readers
        for fd, events in self._epoll.poll(0, 1024):
            reader = readers.get(fd)
            if reader is not None:  # else: closed by a reader earlier in this round
                reader.ready(events)
        self._looked_ns = now_ns()

    def read_if_due(self) -> None:
        """Look at the sockets if the last look is too long ago. For every loop that works while streams flow."""
        if now_ns() - self._looked_ns > DUE_NS:
            self.read()

    def close(self) -> None:
        self._watcher.stop()
        self._watcher.close()
        self._epoll.close()
        self._asks_for_stamps.close()
