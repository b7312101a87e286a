"""The event-stream reader: grammar, cuts anywhere, limits. Every reader test runs whole, byte by byte and cut."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenswarm.sse import EVENT_LIMIT_LINES, Event, EventParser, LineTooLong


def parse(pieces: list[bytes]) -> tuple[list[tuple[bytes, str | None]], EventParser]:
    parser = EventParser()
    events: list[Event] = []
    for mark, piece in enumerate(pieces):
        events += parser.feed(piece, mark)
    events += parser.close()
    return [(event.data, event.name) for event in events], parser


def feed_often(parser: EventParser, data: bytes, times: int) -> None:
    for _ in range(times):
        parser.feed(data, 0)


CASES = [
    (b"data: a\n\ndata: b\n\n", [(b"a", None), (b"b", None)]),
    (b"data: a\r\n\r\ndata: b\r\n\r\n", [(b"a", None), (b"b", None)]),
    (b"data: a\r\rdata: b\r\r", [(b"a", None), (b"b", None)]),
    (b"data: a\n\r\ndata: b\r\n\n", [(b"a", None), (b"b", None)]),
    (b"\xef\xbb\xbfdata: a\n\n", [(b"a", None)]),
    (b"data:a\n\ndata:  b\n\n", [(b"a", None), (b" b", None)]),
    (b"data: a\ndata: b\n\n", [(b"a\nb", None)]),
    (b"data: a\r\ndata: b\r\n\r\n", [(b"a\nb", None)]),
    (b"data: a\rdata: b\n\n", [(b"a\nb", None)]),
    (b"data: a\ndata\ndata:\n\n", [(b"a\n\n", None)]),
    (b"data\n\ndata:\n\nevent: x\n\n", []),
    (b": ping\n\n:\ndata: a\n: x\n\n", [(b"a", None)]),
    (b"event: error\nid: 1\nretry: 5\ndata: a\n\ndata: b\n\n", [(b"a", "error"), (b"b", None)]),
    (b"data: a\nevent:late\n\n", [(b"a", "late")]),
    (
        b"data: \xe2\x9c\x85\xc2\x85\x0b\x0c\n\n",
        [(b"\xe2\x9c\x85\xc2\x85\x0b\x0c", None)],
    ),  # line ends of str, not of SSE
    (b"data: no end", [(b"no end", None)]),
    (b"data: no blank line\n", [(b"no blank line", None)]),
    (b"\n\n\r\n", []),
    (b"", []),
    (b'{"error": "no field"}', []),
    (b"database: x\n\nDATA: y\n\n", []),
]


@pytest.mark.parametrize(("stream", "events"), CASES)
def test_grammar_whole_and_byte_by_byte(stream: bytes, events: list[tuple[bytes, str | None]]) -> None:
    assert parse([stream])[0] == events
    assert parse([stream[i : i + 1] for i in range(len(stream))])[0] == events
    for cut in range(len(stream)):
        assert parse([stream[:cut], b"", stream[cut:]])[0] == events


@pytest.mark.parametrize(
    ("before", "event"),
    [
        (b"data: a", (b"adata: b", None)),
        (b"data: a\n", (b"a\nb", None)),
        (b"event: e\n", (b"b", "e")),
        (b": comment\n", (b"b", None)),
        (b"data: a\r", (b"a\nb", None)),
    ],
)
def test_a_read_that_looks_like_one_event_but_continues_another(before: bytes, event: tuple[bytes, str | None]) -> None:
    assert parse([before, b"data: b\n\n"])[0] == [event]
    assert parse([before + b"data: b\n\n"])[0] == [event]


LINE = st.sampled_from(
    [b"data: ", b"data:", b"event: e", b": c", b"id: 1", b"\xef\xbb\xbf", b"x", b"{}", b"", b" ", b"\xff"]
)
STREAM = st.lists(
    st.one_of(LINE, st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n"]), st.binary(max_size=5)), max_size=40
)


@given(STREAM, st.lists(st.integers(0, 200), max_size=8))
def test_any_cut_gives_the_same(parts: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(parts)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(edges)]
    whole, of_whole = parse([stream])
    assert parse(pieces)[0] == whole
    again, of_pieces = parse([stream[i : i + 1] for i in range(len(stream))])
    assert again == whole
    assert (of_pieces.stray, of_pieces.comments) == (of_whole.stray, of_whole.comments)


@given(st.lists(st.binary(max_size=64)))
def test_no_bytes_make_it_crash(pieces: list[bytes]) -> None:
    parse(pieces)


def test_an_event_bears_the_mark_of_its_last_byte() -> None:
    parser = EventParser()
    assert parser.feed(b"data: le", 10) == []
    assert parser.feed(b"ft\n", 20) == []
    assert parser.feed(b"\ndata: mid\n\ndata: rig", 30) == [Event(b"left", None, 30), Event(b"mid", None, 30)]
    assert parser.feed(b"ht\r", 40) == []
    assert parser.feed(b"\n\r", 50) == [Event(b"right", None, 50)]
    assert parser.feed(b"\ndata: end", 60) == []
    assert parser.close() == [Event(b"end", None, 60)]  # not the time of the close: its bytes were here


def test_every_data_line_keeps_its_own_mark() -> None:
    parser = EventParser()
    parser.feed(b"data: 1\n", 1)
    parser.feed(b"data: 2\n", 2)
    assert parser.feed(b"\n", 3) == [Event(b"1\n2", None, 3, ((b"1", 1), (b"2", 2)))]


def test_what_is_no_field_is_kept() -> None:
    page = b"<html>\n<title>502</title>\n"
    parser = parse([page, b"data: a\n\n", b"plain: words"])[1]
    assert parser.stray == page + b"plain: words\n"


@pytest.mark.parametrize("start", [b"", b"data: ", b": ", b"event: ", b"x"])
def test_a_line_without_end_is_refused_in_bounded_memory(start: bytes) -> None:
    parser = EventParser(limit_bytes=1000)
    parser.feed(start, 0)
    with pytest.raises(LineTooLong, match="1000 bytes"):
        feed_often(parser, b"a" * 100, 100)
    assert len(parser._tail) <= 1100


def test_a_long_line_in_one_read_is_refused() -> None:
    for stream in (b"data: " + b"a" * 2000 + b"\n\n", b"data: " + b"a" * 2000 + b"\n", b"a" * 2000 + b"\n"):
        with pytest.raises(LineTooLong):
            EventParser(limit_bytes=1000).feed(stream, 0)
    assert EventParser(limit_bytes=1000).feed(b"data: " + b"a" * 999 + b"\n\n", 0)


def test_an_event_without_end_is_refused() -> None:
    parser = EventParser(limit_bytes=1000)
    with pytest.raises(LineTooLong):
        feed_often(parser, b"data:\n", EVENT_LIMIT_LINES * 1000)


def test_stray_bytes_are_bounded() -> None:
    parser = EventParser()
    for _ in range(200):
        parser.feed(b"x" * 1000 + b"\n", 0)
    assert 64_000 < len(parser.stray) <= 65_537
