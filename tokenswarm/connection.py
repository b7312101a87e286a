"""One connection: bytes out, HTTP answers in. Everything in `ready` is the hot path.

Per read of a streamed token: recvmsg, the kernel's stamp, llhttp to undo the framing, one append. No greenlet switches.
"""

import ssl
import typing

import httptools

from tokenswarm.collector import ANCILLARY_BYTES, EPOLLIN, EPOLLOUT, EPOLLRDHUP, Collector, now_ns, timespec
from tokenswarm.errors import End
from tokenswarm.exchange import Exchange
from tokenswarm.route import Connected, Route

READ_BYTES = 65536
ENDED = EPOLLRDHUP | 0x8 | 0x10  # or EPOLLERR, EPOLLHUP
MOST_READS = 16  # of one socket in a row: then it is the others' turn


class Connection:
    """A socket registered with the collector for its life. Carries one exchange at a time."""

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
        self.arrived_ns = 0
        self._exchange: Exchange | None = None
        self._answered = False  # a byte of the present answer has arrived
        self._until_eof = False  # the present answer ends with the connection
        self._parser = httptools.HttpResponseParser(self)
        collector.register(self._fd, self)

    # -- sending -------------------------------------------------------------------------------------------------

    def send(self, exchange: Exchange) -> None:
        """Begin `exchange`. Its end, whatever it is, is told to the exchange."""
        self._exchange = exchange
        self._answered = self._until_eof = False
        if self.used == 0:
            exchange.connect_us, exchange.tls_us = self.connect_us, self.tls_us
        self.used += 1
        data = exchange.request
        if self._tls is not None:
            try:
                self._tls.write(data)
            except ssl.SSLError as error:
                self._broke(now_ns(), f"TLS: {_words(error)}")
                return
            data = typing.cast(ssl.MemoryBIO, self._outgoing).read()
        exchange.sent_ns = exchange.last_read_ns = now_ns()
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
        for _ in range(MOST_READS):
            if not self.open:
                return
            try:
                data, ancillary, _, _ = self._recvmsg(READ_BYTES, ANCILLARY_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._broke(now_ns(), error.strerror or str(error))
                return
            read_ns = now_ns()
            exchange = self._exchange
            if ancillary:
                seconds, nanos = timespec(ancillary[0][2])
                self.arrived_ns = arrived_ns = seconds * 1_000_000_000 + nanos
                if exchange is not None and read_ns - arrived_ns > exchange.lag_max_ns:
                    exchange.lag_max_ns = read_ns - arrived_ns
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
                exchange.last_read_ns = read_ns
            if self._tls is None:
                self._feed(data)
            else:
                self._decipher(data)
            # a short read has emptied the socket; only its end may stand behind it, and that was reported
            if len(data) < READ_BYTES and not events & ENDED:
                return
        self._collector.look_again(self._fd)

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
        if exchange.progress is not None:
            exchange.progress.set()

    def on_body(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        exchange.arrivals.append((self.arrived_ns, data))
        if exchange.progress is not None:
            exchange.progress.set()

    def on_message_complete(self) -> None:
        exchange = self._exchange
        if exchange is None or exchange.status is None:  # an interim 1xx answer
            return
        self._exchange = None
        if not self._parser.should_keep_alive() or self._unsent or self._deaf:
            self.close()
        exchange.finish(End.COMPLETE, self.arrived_ns)

    # -- ends ----------------------------------------------------------------------------------------------------

    @property
    def lost_before_answer(self) -> bool:
        """Whether a REUSED connection turned out closed before any byte of the answer: no failure of the server."""
        return not self.open and self.used > 1 and not self._answered

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
            said = "in mid answer" if self._answered else "before any byte of an answer"
            why = f": {self._deaf}" if self._deaf else ""
            self._end(End.RESET, f"the server closed the connection {said}{why}")

    def _broke(self, at_ns: int, words: str) -> None:
        said = "in mid answer" if self._answered else "before any byte of an answer"
        self._end(End.RESET, f"the connection broke {said}: {words}", at_ns)


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
