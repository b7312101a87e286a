"""What a connection reads is what was sent, however a network cuts it and whoever frames it."""

import itertools
import select
import socket
import time
import types
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenswarm.chunk_framing import CHUNK_HEADS, LANE_BYTES, LARGEST_CHUNK_BYTES
from tokenswarm.collector import ANCILLARY_BYTES, Collector, stamp_arrivals
from tokenswarm.connection import Connection
from tokenswarm.errors import End
from tokenswarm.exchange import Exchange, Limits
from tokenswarm.route import Connected, Route

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
LOWER, UPPER, EXTENDED, PADDED = b"%x\r\n", b"%X\r\n", b"%x;n=1\r\n", b"0%x\r\n"


@pytest.fixture(scope="module", autouse=True)
def kernel_stamps() -> Iterator[None]:
    """The kernel begins to stamp a moment after the first socket has asked."""
    ours, theirs = pair()
    with ours, theirs:
        ours.setblocking(True)
        for _ in range(1000):
            theirs.send(b"x")
            if ours.recvmsg(1, ANCILLARY_BYTES)[1]:
                break
            time.sleep(0.01)
        yield


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a TCP connection; what comes to the first bears the kernel's stamps."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
    theirs.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stamp_arrivals(ours)
    ours.setblocking(False)
    return ours, theirs


def read(pieces: list[bytes], on_lane: list[bool] | None = None) -> Exchange:
    """The exchange after each of `pieces` was a read of its own; `on_lane`: whether a lane was there for it."""
    ours, theirs = pair()
    collector = Collector()
    exchange = Exchange(b"GET / HTTP/1.1\r\n\r\n", Limits())
    with ours, theirs:
        connected = Connected(sock=ours, connect_us=1, tls_us=None, tls=None, incoming=None, outgoing=None)
        connection = Connection(cast(Route, types.SimpleNamespace(shown="x")), connected, collector)
        connection.send(exchange)
        for piece in filter(None, pieces):
            if not connection.open:
                break
            if on_lane is not None:
                on_lane.append(ours.fileno() in collector.lanes)
            theirs.sendall(piece)
            assert select.select([ours], [], [], 10)[0]
            collector.read()
        connection.close()
        assert not collector.lanes
    collector.close()
    return exchange


def framed(body: bytes, form: bytes = LOWER) -> bytes:
    return form % len(body) + body + b"\r\n"


def test_the_length_of_a_read_tells_how_a_chunk_begins() -> None:
    known = [(length, head) for length, heads in enumerate(CHUNK_HEADS) for head in heads or ()]
    assert all(len(head) + int(head, 16) + 2 == length for length, head in known)
    assert {int(head, 16) for _, head in known} == set(range(1, LARGEST_CHUNK_BYTES))
    assert CHUNK_HEADS[len(framed(b""))] is None  # the last chunk ends the answer


def test_chunk_after_chunk() -> None:
    bodies = [b"a", b"b" * 15, b"c" * 16, b"d" * 255, b"e" * 256, b"f" * LARGEST_CHUNK_BYTES]
    on_lane: list[bool] = []
    exchange = read([HEAD, *map(framed, bodies), LAST], on_lane)
    assert (exchange.unread, exchange.end) == (bodies, End.COMPLETE)
    assert exchange.unread_ns == sorted(exchange.unread_ns)
    assert (len(exchange.unread_ns), exchange.user_stamped) == (len(bodies), False)
    assert on_lane == [False, False, *[True] * len(bodies)]  # from the first whole chunk to the end


@pytest.mark.parametrize("looks", [b"1\r\nx\r\n", b"\r\n", b"0\r\n\r\n", b"3\r\nabc\r\n"])
def test_a_body_that_looks_like_a_chunk_is_no_chunk(looks: bytes) -> None:
    """Cut so that a read begins in mid chunk."""
    whole = framed(looks)
    for at in range(1, len(whole)):
        exchange = read([HEAD, framed(b"first"), whole[:at], whole[at:], framed(b"last"), LAST])
        assert b"".join(exchange.unread) == b"first" + looks + b"last"
        assert exchange.end is End.COMPLETE


def test_the_rest_of_a_size_is_no_size() -> None:
    padded = framed(b"abc", PADDED)
    exchange = read([HEAD, framed(b"first") + padded[:1], padded[1:], LAST])
    assert (exchange.unread, exchange.end) == ([b"first", b"abc"], End.COMPLETE)


@pytest.mark.parametrize("size", [LANE_BYTES - 8, LANE_BYTES - 7, LANE_BYTES - 6, 3 * LANE_BYTES])
def test_what_is_longer_than_a_read_on_the_lane_is_read_whole(size: int) -> None:
    on_lane: list[bool] = []
    exchange = read([HEAD, framed(b"first"), framed(b"x" * size), framed(b"y"), LAST], on_lane)
    assert b"".join(exchange.unread) == b"first" + b"x" * size + b"y"
    cut_in_its_end = size == LANE_BYTES - 6  # the second read is a line feed
    assert (on_lane[2:], exchange.end) == ([True, not cut_in_its_end, True], End.COMPLETE)
    assert not exchange.user_stamped


def test_a_chunk_without_its_end_is_no_http() -> None:
    exchange = read([HEAD, framed(b"first"), b"3\r\nabcde"])
    assert (exchange.unread[0], exchange.end) == (b"first", End.NOT_HTTP)


@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=300), st.sampled_from([LOWER, UPPER, EXTENDED, PADDED])), max_size=8
    ),
    st.lists(st.integers(0, 3000), max_size=12),
    st.booleans(),
    st.sampled_from([LAST, b"0\r\nx-sum: 1\r\n\r\n"]),
)
def test_any_cut_of_any_chunks(
    chunks: list[tuple[bytes, bytes]], cuts: list[int], at_chunks: bool, last: bytes
) -> None:
    parts = [HEAD, *(framed(body, form) for body, form in chunks), last]
    stream = b"".join(parts)
    ends = [sum(map(len, parts[:count])) for count in range(1, len(parts))] if at_chunks else []
    edges = sorted({0, *ends, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    exchange = read([stream[begin:end] for begin, end in itertools.pairwise(edges)])
    assert b"".join(exchange.unread) == b"".join(body for body, _ in chunks)
    assert exchange.end is End.COMPLETE


def test_a_body_with_a_length_is_not_taken_apart() -> None:
    body = framed(b"abc") + framed(b"def")
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    exchange = read([head, framed(b"abc"), framed(b"def")])
    assert (b"".join(exchange.unread), exchange.end) == (body, End.COMPLETE)
