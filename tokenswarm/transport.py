"""The transport under the openai client: its own calls run on the same kernel-stamped connections as the load.

`client.chat.completions.create(...)`, `client.models.list()` and the like keep their behaviour and their exceptions.
"""

from collections.abc import Iterator

import gevent
import httpx2

from tokenswarm.errors import End
from tokenswarm.exchange import Exchange, Limits
from tokenswarm.pool import Pool
from tokenswarm.route import Route

NO_KEY = "no-key"  # the SDK insists on a key; where there is none, its header is left out again
DROPPED = (b"accept-encoding", b"connection", b"content-length", b"transfer-encoding", b"proxy-authorization")


def request_head(request: httpx2.Request, route: Route, *, fresh: bool = False) -> bytes:
    """The request line and headers of `request`, up to where its length is to be told.

    Asks for identity: a compressed event stream is buffered.
    """
    target = str(request.url).encode("ascii") if route.absolute_form else request.url.raw_path
    lines = [request.method.encode("ascii") + b" " + target + b" HTTP/1.1"]
    for name, value in request.headers.raw:
        if name.lower() not in DROPPED and value != b"Bearer " + NO_KEY.encode("ascii"):
            lines.append(name + b": " + value)
    if route.absolute_form and route.proxy is not None and route.proxy.auth:
        lines.append(b"Proxy-Authorization: " + route.proxy.auth.encode("ascii"))
    lines += [b"Accept-Encoding: identity", b"Connection: close" if fresh else b"Connection: keep-alive"]
    return b"\r\n".join(lines) + b"\r\n"


class _Stream(httpx2.SyncByteStream):
    """The body as it comes. Closing it before its end stops the exchange, and with it the connection."""

    def __init__(self, exchange: Exchange, carrier: gevent.Greenlet, limit_s: float | None) -> None:
        self._exchange = exchange
        self._carrier = carrier
        self._limit_s = limit_s

    def __iter__(self) -> Iterator[bytes]:
        exchange = self._exchange
        assert exchange.progress is not None
        while True:
            exchange.progress.clear()
            yield from exchange.take()[0]
            if exchange.unread:
                continue
            if exchange.end is not None:
                break
            if not exchange.progress.wait(self._limit_s):
                self._carrier.kill()
                raise httpx2.ReadTimeout(f"nothing came for {self._limit_s:g} s")
        raise_for_end(exchange)

    def close(self) -> None:
        if self._exchange.end is None:
            self._carrier.kill()


def raise_for_end(exchange: Exchange) -> None:
    """Raise the httpx2 exception that stands for how `exchange` ended, if it did not end well."""
    words = exchange.detail or str(exchange.end)
    if exchange.end is End.CONNECT_FAILED:
        limit_s, waited_ns = exchange.limits.connect_s, (exchange.ended_ns or 0) - exchange.sent_ns
        in_time = limit_s is None or waited_ns < limit_s * 1e9
        raise httpx2.ConnectError(words) if in_time else httpx2.ConnectTimeout(words)
    if exchange.end is End.CANCELLED:
        raise httpx2.ReadError("the request was stopped by its own side")
    if exchange.end in (End.RESET, End.NOT_HTTP, End.TOO_LARGE):
        raise httpx2.RemoteProtocolError(words)
    if exchange.end is not End.COMPLETE:
        raise httpx2.ReadTimeout(words)


class KernelTransport(httpx2.BaseTransport):
    """Carries httpx2 requests over the pool's connections. One route: the client's own target."""

    def __init__(self, pool: Pool, route: Route) -> None:
        self._pool = pool
        self._route = route

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        timeout = request.extensions.get("timeout", {})
        body = request.read()
        head = request_head(request, self._route, fresh=self._pool.fresh)
        limits = Limits(timeout.get("connect"), None, None, None)
        exchange = Exchange(head + b"Content-Length: %d\r\n\r\n" % len(body) + body, limits, progress=True)
        carrier = gevent.spawn(self._pool.carry, exchange, self._route)
        read_s = timeout.get("read")
        try:
            self._await_headers(exchange, read_s)
        except BaseException:  # its own limit, or a stop of this greenlet: nobody will read the answer
            carrier.kill()
            raise
        return httpx2.Response(
            exchange.status or 0, headers=exchange.headers, stream=_Stream(exchange, carrier, read_s)
        )

    def _await_headers(self, exchange: Exchange, limit_s: float | None) -> None:
        assert exchange.progress is not None
        with gevent.Timeout(limit_s, False):
            while exchange.status is None and exchange.end is None:
                exchange.progress.wait()
                exchange.progress.clear()
        if exchange.status is None:
            if exchange.end is None:
                raise httpx2.ReadTimeout(f"no answer within {limit_s:g} s")
            raise_for_end(exchange)
