"""A response's body: bytes as they came in, server-sent events out. What is no event stream is kept as it is.

Its first bytes decide what it is, and how it is compressed: headers lie too often. No clock, no socket.
"""

from tokenswarm.content_coding import Decoder, decoder
from tokenswarm.sse import LINE_LIMIT_BYTES, Event, EventParser, LineTooLong

SNIFF_LIMIT_BYTES = 4096  # so much white space before the body shows what it is
PIECE_BYTES = 256 * 1024  # no more is split into lines at once: endless short lines take many times their own memory


class Body:
    """`feed` every read with its mark, then `close`.

    unreadable  why it cannot be read at all (an unknown or broken content-encoding)
    compressed  it has a content-encoding
    comments    of an event stream, how many
    """

    def __init__(self, content_encoding: str | None = None) -> None:
        self.unreadable: str | None = None
        self.compressed = False
        self.events = EventParser()
        self._encoding = (content_encoding or "").lower().strip()
        self._decoder: Decoder | None = None
        self._undecided = b""  # first bytes, too few to tell what the body is
        self._coding_known = self._kind_known = False
        self._plain: bytearray | None = None  # a body that is no event stream

    @property
    def comments(self) -> int:
        return self.events.comments

    @property
    def rest(self) -> bytes:
        """What was no event: the whole body, or stray lines of an event stream."""
        return self.events.stray if self._plain is None else bytes(self._plain)

    def one_event(self, data: bytes) -> bytes | None:
        """The data of the event that the read `data` is, if it is just one (see `EventParser.one_event`); else None, and
        nothing has happened: `feed` it.
        """
        return self.events.one_event(data) if self._decoder is None else None

    def feed(self, data: bytes, mark: int) -> list[Event]:
        """Events completed by `data`. Raises LineTooLong."""
        if not self._coding_known:
            data = self._find_coding(data)
        if self.unreadable is not None or not data:
            return []
        if self._decoder is not None:
            try:
                data = self._decoder(data)
            except LineTooLong:
                raise
            except Exception as broken:  # zlib.error, brotli.error: the libraries share no base
                self.unreadable = f"the body is no valid {self._encoding or 'gzip'}: {broken}"
                return []
        if len(data) <= PIECE_BYTES:
            return self._take(data, mark)
        pieces = (data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))
        return [event for piece in pieces for event in self._take(piece, mark)]

    def close(self) -> list[Event]:
        """The last event, where the stream ended without its blank line."""
        try:
            if self._undecided:
                self._coding_known = self._kind_known = True
                self.events.feed(self._undecided, 0)
            return self.events.close()
        except LineTooLong:
            return []

    def _take(self, data: bytes, mark: int) -> list[Event]:
        """Events completed by `data`, which is no longer compressed."""
        if self._plain is not None:
            self._keep(data)
            return []
        return self.events.feed(data if self._kind_known else self._find_kind(data), mark)

    def _find_coding(self, data: bytes) -> bytes:
        """The bytes to go on with, once it is known how they are encoded."""
        data = self._undecided + data
        self._undecided = b""
        if len(data) < 2:  # the magic number of gzip has two bytes
            self._undecided = data
            return b""
        self._coding_known = True
        try:
            self._decoder = decoder(self._encoding, data)
        except ValueError as unknown:
            self.unreadable = str(unknown)
        self.compressed = self._decoder is not None or self.unreadable is not None
        return data

    def _find_kind(self, data: bytes) -> bytes:
        """The bytes of events to go on with, once it is known that there are any."""
        data = self._undecided + data
        self._undecided = b""
        first = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if not first and len(data) < SNIFF_LIMIT_BYTES:
            self._undecided = data
            return b""
        self._kind_known = True
        if first in (b"{", b"[", b"<"):
            self._plain = bytearray(data)
            return b""
        return data

    def _keep(self, data: bytes) -> None:
        assert self._plain is not None
        if len(self._plain) + len(data) > LINE_LIMIT_BYTES:
            raise LineTooLong(f"the body is longer than {LINE_LIMIT_BYTES} bytes and no event stream")
        self._plain += data
