"""Bytes in, server-sent events out. No clock, no socket.

Each read is handed in with a mark (an opaque int: whoever owns the socket owns the clock). An event carries the mark of
the read that brought its last byte, so it does not matter how a network cut the stream. Follows the WHATWG event-stream
grammar (LF, CRLF or lone CR; BOM; comments; optional space after the colon) with two differences: a last event without
its blank line is given at `close`, since servers break off; and lines that are no field are kept in `stray`.
"""

from typing import NamedTuple

LINE_LIMIT_BYTES = 8 * 1024 * 1024
EVENT_LIMIT_LINES = 8  # an event may hold so many lines of full length: some servers send a whole answer as one event
LINE_OVERHEAD_BYTES = 128  # what keeping a line costs besides its bytes: endless empty lines are bounded too
STRAY_LIMIT_BYTES = 64 * 1024

_BOM = b"\xef\xbb\xbf"
_IGNORED = (b"id:", b"retry:")
_IGNORED_BARE = frozenset({b"id", b"retry", b"event"})


class Event(NamedTuple):
    """One event: its data lines joined by "\\n", its `event:` name, the mark of the read that completed it."""

    data: bytes
    name: str | None
    mark: int
    lines: tuple[tuple[bytes, int], ...] = ()  # each data line and its own mark; only where there are several


class LineTooLong(ValueError):
    """A line, or the data of one event, beyond the limit: no server that means well sends that."""


class EventParser:
    """An incremental parser: `feed` every read, `close` at the end. Memory is bounded by the limits."""

    __slots__ = (
        "_data",
        "_first_line",
        "_limit",
        "_mark",
        "_name",
        "_size",
        "_skip_lf",
        "_stray",
        "_tail",
        "between",
        "comments",
    )

    def __init__(self, limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self.comments = 0
        self._limit = limit_bytes
        self._tail = bytearray()  # a line whose end has not come yet
        self._data: list[tuple[bytes, int]] = []  # data lines of the event that is being received
        self._size = 0  # bytes in _data
        self._name: str | None = None
        self._mark = 0
        self._first_line = True
        self.between = False  # nothing of an event has come yet, and the first line is over
        self._skip_lf = False  # the last read ended in CR: a LF that comes first now belongs to it
        self._stray = bytearray()

    @property
    def stray(self) -> bytes:
        """The first STRAY_LIMIT_BYTES of what is no field line: a JSON body, an HTML page, plain text."""
        return bytes(self._stray)

    def feed(self, data: bytes, mark: int) -> list[Event]:
        """Events completed by `data`. Raises LineTooLong."""
        one = self.one_event(data)
        return self._feed_lines(data, mark) if one is None else [Event(one, None, mark)]

    def one_event(self, data: bytes) -> bytes | None:
        """The data of the event that `data` is, if it is just one, of one line, with nothing left over: nearly every
        read. Else None, and nothing has happened: `feed` it.
        """
        if self.between and data[:6] == b"data: " and data[-2:] == b"\n\n":
            line = data[6:-2]
            if line and 10 not in line and 13 not in line and len(line) < self._limit:  # neither LF nor CR
                return line
        return None

    def close(self) -> list[Event]:
        """The last event, where the stream ended without its blank line. Its mark is that of the last read."""
        if self._tail:
            line = bytes(self._tail)
            self._tail.clear()
            self._take_line(line, self._mark, [])
        events: list[Event] = []
        self._dispatch(self._data[-1][1] if self._data else self._mark, events)
        return events

    def _feed_lines(self, data: bytes, mark: int) -> list[Event]:
        if self._skip_lf and data:
            self._skip_lf = False
            if data[:1] == b"\n":
                data = data[1:]
        events: list[Event] = []
        if not data:
            return events
        self._mark = mark
        lines = data.splitlines()  # of bytes: splits at LF, CRLF and CR only
        unfinished = lines.pop() if data[-1] not in b"\r\n" else b""
        self._skip_lf = data[-1] == 13
        if lines and self._tail:
            lines[0] = bytes(self._tail) + lines[0]
            self._tail.clear()
        for line in lines:
            self._take_line(line, mark, events)
        self._tail += unfinished
        self._check(len(self._tail))
        self.between = not (self._tail or self._data or self._skip_lf) and self._name is None
        return events

    def _take_line(self, line: bytes, mark: int, events: list[Event]) -> None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(mark, events)
        elif line.startswith(b"data:"):
            self._add_data(line[6:] if line[5:6] == b" " else line[5:], mark)
        elif line[0] == 0x3A:
            self.comments += 1
        elif line.startswith(b"event:"):
            self._check(len(line))
            self._name = line[6:].removeprefix(b" ").decode("utf-8", "replace") or None
        elif line == b"data":
            self._add_data(b"", mark)
        elif not line.startswith(_IGNORED) and line not in _IGNORED_BARE:
            self._check(len(line))
            self._stray += line[: max(0, STRAY_LIMIT_BYTES - len(self._stray))]
            self._stray += b"\n" if len(self._stray) < STRAY_LIMIT_BYTES else b""

    def _add_data(self, value: bytes, mark: int) -> None:
        self._check(len(value))
        self._size += len(value) + LINE_OVERHEAD_BYTES
        if self._size > EVENT_LIMIT_LINES * self._limit:
            raise LineTooLong(f"one event of the stream is longer than {EVENT_LIMIT_LINES * self._limit} bytes")
        self._data.append((value, mark))

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise LineTooLong(f"a line of the event stream is longer than {self._limit} bytes")

    def _dispatch(self, mark: int, events: list[Event]) -> None:
        lines, name = self._data, self._name
        if lines:
            self._data = []
            self._size = 0
            if len(lines) == 1:
                if lines[0][0]:  # an event without data is none
                    events.append(Event(lines[0][0], name, mark))
            else:
                events.append(Event(b"\n".join([line for line, _ in lines]), name, mark, tuple(lines)))
        self._name = None
