"""Connections: kept, reused, found closed, and what may come over them."""

import contextlib
import socket as constants
import threading
import time
from collections.abc import Iterator
from typing import Any

import gevent
import psutil
import pytest
from gevent import monkey

from tests.reach.scripted import (
    BODY,
    CHUNKED_HEAD,
    DONE,
    HEAD,
    LAST_CHUNK,
    STREAM,
    Peer,
    Scripted,
    always,
    answer,
    ask,
    chatting,
    chunk,
    event,
    open_files,
    until,
)
from tests.servers import llama_server
from tokenswarm.connection import STALE_S
from tokenswarm.exchange import Limits
from tokenswarm.record import ErrorClass, Outcome, RequestRecord, Stamp
from tokenswarm.route import Route, _dial

BIG = "word " * 4_000_000  # 20 MB: more than the sockets' buffers take between them


def ok(record: RequestRecord, chunks: int = 2) -> None:
    assert (record.outcome, len(record.chunk_us)) == (Outcome.OK, chunks), record


# -- reuse -----------------------------------------------------------------------------------------------------------


def test_a_connection_is_kept_and_reused() -> None:
    with Scripted(always(STREAM)) as server, chatting(server.url) as (client, records):
        for _ in range(10):
            ok(ask(client))
        assert len(server.peers) == 1
        assert [record.connect_us is None for record in records] == [False] + [True] * 9
        assert {record.reconnected for record in records} == {0}
        assert {record.stamp for record in records} == {Stamp.KERNEL}


def test_never_more_sockets_than_requests_in_flight() -> None:
    with Scripted(always(STREAM, pause_s=0.01)) as server, chatting(server.url) as (client, records):

        def user() -> None:
            for _ in range(5):
                ask(client)

        gevent.joinall([gevent.spawn(user) for _ in range(20)], raise_error=True)
        assert len(records) == 100
        assert server.most_open <= 20
        assert len(server.peers) <= 20


def test_never_more_sockets_than_users_whatever_fails() -> None:
    """Counted in the system's own table, while answers are cut, reset, refused a reuse, or stopped by us."""
    users = 50

    def script(peer: Peer) -> None:
        number = len(peer.server.peers)
        for _ in range(number % 4):
            if peer.request() is None:
                return
            gevent.sleep(0.01)
            peer.send(STREAM)
        if peer.request() is not None and number % 3:
            peer.send(CHUNKED_HEAD + chunk(event()))
            peer.reset()

    def sockets(port: int) -> int:
        return sum(1 for one in psutil.Process().net_connections("tcp") if one.raddr and one.raddr.port == port)

    limits = Limits(stall_s=0.2)
    with Scripted(script) as server, chatting(server.url, limits=limits) as (client, records):

        def user() -> None:
            for _ in range(12):
                ask(client)

        greenlets = [gevent.spawn(user) for _ in range(users)]
        counts = []
        while not all(one.ready() for one in greenlets):
            counts.append(sockets(server.port))
            if len(counts) == 5:
                gevent.killall(greenlets[:10], block=False)
            gevent.sleep(0.01)
        assert max(counts) <= users
        assert sockets(server.port) <= users
        assert {record.outcome for record in records} >= {Outcome.OK, Outcome.FAILED, Outcome.CANCELLED}
        assert any(record.reconnected for record in records)


def test_fresh_connections() -> None:
    with Scripted(always(STREAM)) as server, chatting(server.url, fresh_connections=True) as (client, records):
        for _ in range(4):
            ok(ask(client))
        assert len(server.peers) == 4
        assert all(record.connect_us is not None for record in records)
        assert {request.headers["connection"] for request in server.requests} == {"close"}
        until(lambda: server.open == 0)


@pytest.mark.parametrize("how", ["close", "reset", "close when the next request is there"])
def test_server_that_promises_to_keep_the_connection_and_does_not(how: str) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM)
        if how == "reset":
            gevent.sleep(0.02)  # a reset discards what the client has not read yet
            peer.reset()
        elif how.startswith("close when"):
            peer.head()  # of the next request: then the connection is closed without a byte

    with Scripted(script) as server, chatting(server.url) as (client, records):
        for _ in range(6):
            ok(ask(client))
        assert len(server.peers) == 6
        told = [record.reconnected for record in records]
        assert told == ([0, 1, 1, 1, 1, 1] if how.startswith("close when") else told)
        assert all(record.connect_us is not None for record in records)


def test_new_connection_closed_without_a_byte_is_a_failure() -> None:
    def script(peer: Peer) -> None:
        peer.request()

    with Scripted(script) as server, chatting(server.url) as (client, _):
        record = ask(client)
        assert (record.outcome, record.error_class) == (Outcome.FAILED, ErrorClass.CONNECTION_RESET)
        assert record.reconnected == 0
        assert record.detail == "the server closed the connection before any byte of an answer (a new connection)"
        assert len(server.requests) == 1


def test_sent_again_once_only() -> None:
    """A reused connection that closes, then a new one that closes too: a failure, and two requests at the server."""

    def script(peer: Peer) -> None:
        peer.request()
        if len(peer.server.peers) == 1:
            peer.send(STREAM)
            peer.request()

    with Scripted(script) as server, chatting(server.url) as (client, _):
        ok(ask(client))
        record = ask(client)
        assert record.error_class is ErrorClass.CONNECTION_RESET
        assert record.reconnected == 1
        assert (record.detail or "").endswith("(a new connection, after another was closed likewise)")
        assert len(server.requests) == 3


@contextlib.contextmanager
def impatient(closed: str, times: int) -> Iterator[tuple[str, list[bytes]]]:
    """A server in a thread of its own, which goes on when this process's hub stands still. It closes the first `times`
    connections without a word: "unasked", or "when asked". Gives its URL, and what each connection said.
    """
    heard: list[bytes] = []
    listener = monkey.get_original("socket", "socket")()
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                with sock:
                    heard.append(b"" if len(heard) < times and closed == "unasked" else sock.recv(65536))
                    if len(heard) > times:
                        sock.sendall(STREAM)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", heard
    finally:
        listener.shutdown(constants.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.mark.parametrize("closed", ["unasked", "when asked"])
def test_a_new_connection_that_waited_for_us_is_as_good_as_a_reused_one(
    monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """Seen in a run: this process was kept from its work for longer than the server waits for a first request."""

    waits = [STALE_S + 0.1]

    def stalled(route: Route, limit_s: float | None) -> Any:
        sock = _dial(route, limit_s)
        if waits:  # of the first only
            time.sleep(waits.pop())  # the whole process, its hub too
        return sock

    monkeypatch.setattr("tokenswarm.route._dial", stalled)
    with impatient(closed, 1) as (url, heard), chatting(url) as (client, _):
        record = ask(client)
        ok(record)
        assert record.reconnected == 1
        assert [bool(request) for request in heard] == [closed == "when asked", True]


def test_a_stalled_process_sends_a_request_three_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    def stalled(route: Route, limit_s: float | None) -> Any:
        sock = _dial(route, limit_s)
        time.sleep(STALE_S + 0.1)
        return sock

    monkeypatch.setattr("tokenswarm.route._dial", stalled)
    with impatient("when asked", 9) as (url, heard), chatting(url) as (client, _):
        record = ask(client)
        assert (record.error_class, record.reconnected, len(heard)) == (ErrorClass.CONNECTION_RESET, 2, 3)


@pytest.mark.parametrize("sent", [b"HTTP/1.1 2", HEAD, CHUNKED_HEAD + chunk(event())], ids=["line", "head", "chunk"])
def test_half_an_answer_is_never_asked_for_again(sent: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM)
        peer.request()
        peer.send(sent)

    with Scripted(script) as server, chatting(server.url) as (client, _):
        ok(ask(client))
        record = ask(client)
        assert record.error_class is ErrorClass.CONNECTION_RESET
        assert "in mid answer" in (record.detail or "")
        assert record.reconnected == 0
        assert len(server.requests) == 2


@pytest.mark.llama
def test_twenty_in_a_row_against_llama_cpp() -> None:
    """It closes each connection after a stream although it promised to keep it."""
    with (
        llama_server() as server,
        chatting(server.base_url, model="tiny", extra_body={"ignore_eos": True}) as (client, records),
    ):
        for _ in range(20):
            ask(client, max_tokens=4)
        # a token of random weights may be no character: an answer without text is no failure
        assert [record.detail for record in records if record.outcome not in (Outcome.OK, Outcome.EMPTY)] == []
        assert len(records) == 20


def test_no_socket_is_left_behind() -> None:
    with Scripted(always(STREAM)) as server:
        before = open_files()
        with chatting(server.url) as (client, _):
            gevent.joinall([gevent.spawn(ask, client) for _ in range(10)], raise_error=True)
        until(lambda: server.open == 0)
        assert open_files() <= before


# -- idle ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "junk", [b"\0\1\2 no http", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", STREAM]
)
@pytest.mark.parametrize("when", ["idle", "with the answer"])
def test_bytes_nobody_asked_for(junk: bytes, when: str) -> None:
    """They are no part of the next answer: that comes over a new connection."""

    def script(peer: Peer) -> None:
        peer.request()
        if when == "with the answer":
            peer.send(STREAM + junk)
        else:
            peer.send(STREAM)
            gevent.sleep(0.02)
            peer.send(junk)
        peer.await_gone()

    with Scripted(script) as server, chatting(server.url) as (client, _):
        ok(ask(client))
        until(lambda: server.peers[0].gone.is_set())  # the client has closed it
        ok(ask(client))
        assert len(server.peers) == 2


def test_closed_while_idle() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM)

    with Scripted(script) as server, chatting(server.url) as (client, records):
        ok(ask(client))
        until(lambda: server.open == 0)
        ok(ask(client))
        assert records[1].reconnected == 0  # it was seen before anything was sent


# -- requests bigger than the socket's buffer ------------------------------------------------------------------------


def test_slow_reader_of_a_big_request() -> None:
    def script(peer: Peer) -> None:
        gevent.sleep(0.2)
        while peer.request() is not None:
            peer.send(STREAM)

    with Scripted(script) as server, chatting(server.url) as (client, _):
        ok(ask(client, BIG))
        ok(ask(client, "small"))
        assert BIG.encode() in server.requests[0].body
        assert len(server.peers) == 1


@pytest.mark.parametrize("keeps", [True, False], ids=["stays open", "closes at once"])
def test_answer_before_the_whole_request_was_read(keeps: bool) -> None:
    said = b'{"error": {"message": "request entity too large", "type": "too_large"}}'

    def script(peer: Peer) -> None:
        peer.head()
        peer.send(answer(413, said))
        if keeps:
            peer.await_gone()

    with Scripted(script) as server, chatting(server.url) as (client, _):
        record = ask(client, BIG)
        assert (record.http_status, record.outcome) == (413, Outcome.FAILED)
        assert "request entity too large" in (record.detail or "")
        until(lambda: server.open == 0)  # half a request is on it: never reused


def test_server_that_resets_in_mid_request() -> None:
    def script(peer: Peer) -> None:
        peer.head()
        peer.reset()

    with Scripted(script) as server, chatting(server.url) as (client, _):
        record = ask(client, BIG)
        assert record.error_class is ErrorClass.CONNECTION_RESET
        assert "before any byte of an answer" in (record.detail or "")


# -- forms of answers ------------------------------------------------------------------------------------------------


PLAIN = b"Content-Type: text/event-stream\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)
UNTIL_END = BODY.removesuffix(DONE)  # after [DONE] a break would not matter
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nContent-Type: text/html\r\n\r\n"
KEPT = {
    "content-length": HEAD + LENGTH + BODY,
    "100": CONTINUE + STREAM,
    "103": HINTS + STREAM,
    "100 and 103": CONTINUE + HINTS + HINTS + STREAM,
    "chunk extensions": CHUNKED_HEAD + b'%x;name="a;b";c\r\n%s\r\n' % (len(BODY), BODY) + b"0;last=1\r\n\r\n",
    "trailers": CHUNKED_HEAD + chunk(BODY) + b"0\r\nServer-Timing: total;dur=1\r\nX: y\r\n\r\n",
    "big chunk numbers": CHUNKED_HEAD + b"000000%X\r\n%s\r\n" % (len(BODY), BODY) + b"000\r\n\r\n",
    "no reason phrase": STREAM.replace(b"200 OK", b"200"),
    "HTTP/1.0 kept": b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + PLAIN + LENGTH + BODY,
}
CLOSED = {
    "connection: close": HEAD + b"Connection: close\r\n" + LENGTH + BODY,
    "until the end": HEAD + b"\r\n" + UNTIL_END,
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n" + PLAIN + b"\r\n" + UNTIL_END,
    "HTTP/1.0 with length": b"HTTP/1.0 200 OK\r\n" + PLAIN + LENGTH + BODY,
    "identity": HEAD + b"Transfer-Encoding: identity\r\n\r\n" + UNTIL_END,
}


@pytest.mark.parametrize("cut", [None, 1], ids=["whole", "byte by byte"])
@pytest.mark.parametrize("form", [*KEPT, *CLOSED])
def test_form_of_answer(form: str, cut: int | None) -> None:
    data = (KEPT | CLOSED)[form]

    def script(peer: Peer) -> None:
        peer.sock.setsockopt(constants.IPPROTO_TCP, constants.TCP_NODELAY, 1)
        while peer.request() is not None:
            for at in range(0, len(data), cut or len(data)):
                peer.send(data[at : at + (cut or len(data))])
                gevent.sleep(0)
            if form in CLOSED:
                return

    with Scripted(script) as server, chatting(server.url) as (client, records):
        for _ in range(2):
            ok(ask(client))
        assert {record.http_status for record in records} == {200}
        assert len(server.peers) == (1 if form in KEPT else 2)


@pytest.mark.parametrize(
    ("data", "error_class"),
    [
        (HEAD + b"Content-Length: 100000\r\n\r\n" + event(), ErrorClass.CONNECTION_RESET),
        (CHUNKED_HEAD + chunk(event()), ErrorClass.CONNECTION_RESET),
        (CHUNKED_HEAD + b"zz\r\n", ErrorClass.MALFORMED_STREAM),
        (b"220 mail.example ESMTP\r\n", ErrorClass.MALFORMED_STREAM),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            ErrorClass.MALFORMED_STREAM,
        ),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", ErrorClass.MALFORMED_STREAM),
    ],
)
def test_broken_answer(data: bytes, error_class: ErrorClass) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(data)

    with Scripted(script) as server, chatting(server.url) as (client, _):
        record = ask(client)
        assert (record.outcome, record.error_class) == (Outcome.FAILED, error_class), record
        until(lambda: server.open == 0)


def test_chunk_that_came_with_the_end_is_not_lost() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED_HEAD + chunk(event("Hi", "stop") + DONE) + LAST_CHUNK)

    with Scripted(script) as server, chatting(server.url) as (client, _):
        ok(ask(client), 1)
