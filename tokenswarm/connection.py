"""One connection: bytes out, HTTP answers in. No greenlet switches.

llhttp reads all HTTP but for this: while it stands between two chunks of a body, the connection has a lane, on which the
collector takes reads that are just one more chunk without it.
"""

import socket
import ssl
import struct
import typing

import httptools

from tokenswarm.chunk_framing import CHUNK_TAIL
from tokenswarm.collector import (
    ANCILLARY_BYTES,
    EPOLLIN,
    EPOLLOUT,
    EPOLLRDHUP,
    READ_BYTES,
    Ancillary,
    Collector,
    now_ns,
    timespec,
)
from tokenswarm.errors import End
from tokenswarm.exchange import Exchange
from tokenswarm.route import Connected, Route

ENDED = EPOLLRDHUP | 0x8 | 0x10  # or EPOLLERR, EPOLLHUP
MOST_READS = 16  # of one socket in a row: then it is the others' turn
STALE_S = 1.0  # servers close a connection without a request after seconds (gunicorn 2, llama.cpp and uvicorn 5)
_TCP_INFO = struct.Struct("B51x2I")  # of Linux's: state, ms since data, and since an acknowledgement, last came
_ESTABLISHED = 1


class Connection:
    """A socket registered with the collector for its life. Carries one exchange at a time."""

    # slots: of hundreds of connections, each is a miss of the cache at every token, so that little memory is quick
    __slots__ = (
        "_answered",
        "_chunk_whole",
        "_collector",
        "_deaf",
        "_exchange",
        "_fd",
        "_incoming",
        "_outgoing",
        "_parser",
        "_recvmsg",
        "_sock",
        "_spoilt",
        "_stale",
        "_tls",
        "_unsent",
        "_until_eof",
        "arrived_ns",
        "connect_us",
        "open",
        "route",
        "tls_us",
        "used",
    )

    def __init__(self, route: Route, connected: Connected, collector: Collector) -> None:
        self.route = route
        self.open = True
        self.used = 0  # exchanges begun on it
        self.connect_us, self.tls_us = connected.connect_us, connected.tls_us
        self._collector = collector
        self._sock = connected.sock
        self._recvmsg = connected.sock.recvmsg
        self._fd = connected.sock.fileno()
        self._tls, self._incoming, self._outgoing = connected.tls, connected.incoming, connected.outgoing
        self._unsent = b""
        self._deaf: str | None = None  # why the server takes no more; its answer may be there all the same
        self._spoilt = False  # bytes came that belong to no answer
        self._stale = False  # it had waited for its first exchange
        self.arrived_ns = 0
        self._exchange: Exchange | None = None
        self._answered = False  # a byte of the present answer has arrived
        self._until_eof = False  # the present answer ends with the connection
        self._chunk_whole = False  # of a chunked body, llhttp has read one to its end, and begun no other
        self._parser = httptools.HttpResponseParser(self)
        collector.register(self._fd, self)

    # -- sending -------------------------------------------------------------------------------------------------

    def send(self, exchange: Exchange) -> None:
        """Begin `exchange`. Its end, whatever it is, is told to the exchange."""
        self._exchange = exchange
        self._answered = self._until_eof = False
        if self.used == 0:
            exchange.connect_us, exchange.tls_us = self.connect_us, self.tls_us
            self._stale = self._waited()
        self.used += 1
        data = exchange.request
        if self._tls is not None:
            try:
                self._tls.write(data)
            except ssl.SSLError as error:
                self._broke(now_ns(), f"TLS: {_words(error)}")
                return
            data = typing.cast(ssl.MemoryBIO, self._outgoing).read()
        exchange.sent_ns = exchange.heard_ns = now_ns()
        self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:  # whoever answers before the request was read to its end may close at once
            self._deaf = error.strerror or str(error)
            sent = len(data)
        if sent < len(data) or self._unsent:
            self._unsent = data[sent:]
            self._collector.want_write(self._fd, bool(self._unsent))

    # -- receiving -----------------------------------------------------------------------------------------------

    def ready(self, events: int) -> None:
        if events & EPOLLOUT and self._unsent:
            self._write(self._unsent)
        reads = 0
        while self.open:
            try:
                data, ancillary, _, _ = self._recvmsg(READ_BYTES, ANCILLARY_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self.broke(error)
                return
            self.received(data, ancillary, now_ns())
            # a short read has emptied the socket; only its end may stand behind it, and that was reported
            if len(data) < READ_BYTES and not events & ENDED:
                return
            reads += 1
            if reads == MOST_READS:
                self._collector.look_again(self._fd)
                return

    def received(self, data: bytes, ancillary: Ancillary, read_ns: int) -> None:
        """What one read brought; nothing is the end."""
        exchange = self._exchange
        if ancillary:
            seconds, nanos = timespec(ancillary[0][2])
            self.arrived_ns = seconds * 1_000_000_000 + nanos
            if exchange is not None and read_ns - self.arrived_ns > exchange.lag_max_ns:
                exchange.lag_max_ns = read_ns - self.arrived_ns
        else:
            self.arrived_ns = read_ns
            if data:
                self._collector.unstamped_reads += 1
                if exchange is not None:
                    exchange.user_stamped = True
        if not data:
            self._eof()
            return
        if exchange is not None:
            exchange.heard_ns = read_ns
        if self._tls is None:
            self._feed(data)
        else:
            self._decipher(data)

    def _decipher(self, data: bytes) -> None:
        tls, incoming = typing.cast(ssl.SSLObject, self._tls), typing.cast(ssl.MemoryBIO, self._incoming)
        outgoing = typing.cast(ssl.MemoryBIO, self._outgoing)
        incoming.write(data)
        while self.open:
            try:
                plain = tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                plain = b""
            except ssl.SSLError as error:
                if self.used == 1 and not self._answered:  # under TLS 1.3 a client certificate is refused only here
                    self._end(End.CONNECT_FAILED, f"TLS with {self.route.shown} failed: {_words(error)}")
                else:
                    self._broke(self.arrived_ns, f"TLS: {_words(error)}")
                return
            if not plain:
                self._eof()
                return
            self._feed(plain)
        if outgoing.pending and self.open:  # an answer to a key update
            self._write(self._unsent + outgoing.read())

    def _feed(self, data: bytes) -> None:
        if self._exchange is None:  # bytes that nobody asked for
            self.close()
            return
        self._answered = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None  # our own mistake, not the server's
        except httptools.HttpParserUpgrade:
            self._end(End.NOT_HTTP, "the server switched protocols")
        except httptools.HttpParserError as error:
            head = bytes(data[:80])
            if self._exchange is None:  # the answer was whole; what came after it was not HTTP
                self.close()
            else:
                self._end(End.NOT_HTTP, f"{error}: {head!r}")
        if self._spoilt:
            self.close()
        elif self.open:
            # without CRLF at its end, the beginning of a next chunk's size may have come
            self._mark_lane(self._chunk_whole and self._tls is None and data.endswith(CHUNK_TAIL))

    def _mark_lane(self, wanted: bool) -> None:
        """Whether the collector may take chunks without us from now on."""
        lanes, exchange = self._collector.lanes, self._exchange
        if not wanted:
            lanes.pop(self._fd, None)
        elif exchange is not None and self._fd not in lanes:
            lanes[self._fd] = (self._recvmsg, exchange.unread.append, exchange.unread_ns.append, exchange, self)

    # llhttp's callbacks, in the order in which they come

    def on_message_begin(self) -> None:
        exchange = self._exchange
        if exchange is not None:
            exchange.headers = []
        else:
            self._spoilt = True  # an answer to nothing: the rest of it would be taken for the next request's

    def on_header(self, name: bytes, value: bytes) -> None:
        exchange = self._exchange
        if exchange is not None:
            exchange.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200:
            return
        exchange.status, exchange.headers_ns = status, self.arrived_ns
        chunked = "chunked" in (exchange.header(b"transfer-encoding") or "").lower()
        framed = chunked or exchange.header(b"content-length") is not None
        self._until_eof = not framed and status not in (204, 304)
        self._chunk_whole = False
        if exchange.progress is not None:
            exchange.progress.set()

    def on_chunk_header(self) -> None:
        self._chunk_whole = False

    def on_chunk_complete(self) -> None:
        self._chunk_whole = self._exchange is not None and self._exchange.progress is None

    def on_body(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        exchange.unread_ns.append(self.arrived_ns)
        exchange.unread.append(data)
        if exchange.progress is not None:
            exchange.progress.set()

    def on_message_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or exchange.status is None:  # an interim 1xx answer
            return
        self._exchange = None
        self._chunk_whole = False
        if not self._parser.should_keep_alive() or self._unsent or self._deaf:
            self.close()
        exchange.finish(End.COMPLETE, self.arrived_ns)

    # -- ends ----------------------------------------------------------------------------------------------------

    @property
    def lost_before_answer(self) -> bool:
        """Whether a REUSED connection turned out closed before any byte of the answer: no failure of the server.

        So did a new one, if this process was kept from sending on it so long that a server may have given it up.
        """
        return not self.open and (self.used > 1 or self._stale) and not self._answered

    def _waited(self) -> bool:
        """Whether the server had to wait for us for STALE_S, or has closed since connecting began as long ago."""
        try:
            told = self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
            state, *quiet_ms = _TCP_INFO.unpack(told)
        except (AttributeError, OSError, struct.error):  # no Linux, or no TCP
            return False
        if state != _ESTABLISHED:  # the close came by itself: how long we were awaited before it is not known
            return self.connect_us + (self.tls_us or 0) >= STALE_S * 1e6
        return bool(min(quiet_ms) >= STALE_S * 1000)

    def alive(self) -> bool:
        """Whether an idle connection can be used; reads what the collector has not yet come to (a close, say)."""
        if self.open:
            self.ready(EPOLLIN)
        return self.open

    def close(self) -> None:
        if self.open:
            self.open = False
            self._collector.unregister(self._fd)
            self._sock.close()

    def abandon(self, end: End, detail: str | None) -> None:
        """Our own limit or stop: the answer is over, and with it the connection."""
        self._end(end, detail, now_ns())

    def _end(self, end: End, detail: str | None, at_ns: int | None = None) -> None:
        exchange, self._exchange = self._exchange, None
        self.close()
        if exchange is not None:
            exchange.finish(end, self.arrived_ns if at_ns is None else at_ns, detail)

    def _eof(self) -> None:
        exchange = self._exchange
        if exchange is not None and exchange.status is not None and self._until_eof:
            self._end(End.COMPLETE, None)
        else:
            why = f": {self._deaf}" if self._deaf else ""
            self._end(End.RESET, f"the server closed the connection {self._when()}{why}")

    def broke(self, error: OSError) -> None:
        """The system says so."""
        self._broke(now_ns(), error.strerror or str(error))

    def _broke(self, at_ns: int, words: str) -> None:
        self._end(End.RESET, f"the connection broke {self._when()}: {words}", at_ns)

    def _when(self) -> str:
        """How far it had got when it ended, in words that tell which attempt it was."""
        if self._answered:
            return "in mid answer"
        which = "a reused connection" if self.used > 1 else "a new connection"
        again = self._exchange is not None and self._exchange.reconnected
        return f"before any byte of an answer ({which}{', after another was closed likewise' if again else ''})"


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
