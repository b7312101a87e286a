"""Chunks that follow a pattern are read as they would be in full, and everything else is read in full."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.streamed import DONE, STOP, chunk, event, seen
from tokenswarm.chat_stream import Answer
from tokenswarm.choice import MANY_PIECES
from tokenswarm.chunk import decode_chunk
from tokenswarm.chunk_pattern import Pattern, learn


def pattern(text: str) -> Pattern | None:
    data = text.encode()
    return learn(data, len(b"data: "), 2)


def usual(text: str, **more: Any) -> str:
    return chunk({"content": text}, **more)


def test_what_differs_in_the_text_only_follows() -> None:
    found = pattern(usual("Hello"))
    assert found is not None
    reads = [usual(text).encode() for text in (" world", ",", " 你好", "é")]
    assert found.run([usual("").encode(), *reads, STOP.encode()], 1) == [" world", ",", " 你好", "é"]


@pytest.mark.parametrize(
    "other",
    [
        usual(""),
        usual('a"b'),
        usual("a\\b"),
        usual("a\nb"),
        usual("é"),  # as json.dumps writes it: escaped
        usual("a\x7fb"),
        chunk({"content": "a", "name": "b"}),
        chunk({"content": "a"}, "stop"),
        chunk({"content": "a"}, index=1),
        usual("a", usage={"completion_tokens": 1}),
        event("[DONE]"),
        usual("a")[:-1],
        usual("a")[1:],
    ],
)
def test_what_is_not_just_so_is_read_in_full(other: str) -> None:
    found = pattern(usual("Hello"))
    assert found is not None
    follows = found.run([other.encode()], 0)
    assert not follows or json.loads(other[6:])["choices"][0]["delta"]["content"] == follows[0]
    assert found.run([b"data: x\n\n", usual("a").encode()], 0) == []


def test_bytes_that_are_no_utf8_end_a_run() -> None:
    found = pattern(usual("Hello"))
    assert found is not None
    broken = usual("a~b").encode().replace(b"~", b"\xe4\xbd")
    rest = usual("a~b").encode().replace(b"~", b"\xa0")
    assert found.run([usual("a").encode(), broken, rest], 0) == ["a"]


def test_head_and_tail_do_not_overlap() -> None:
    found = Pattern(b'data: {"a": "', b'"}\n\n', "content", 0)
    assert found.run([b'data: {"a": "}\n\n'], 0) == []


@pytest.mark.parametrize(
    "text",
    [
        usual("id"),  # it stands elsewhere, too
        usual("a", obfuscation="a"),
        usual("a", content="a"),
        usual('a"b'),
        chunk({"content": "a", "reasoning": "b"}),
        chunk({"content": "a", "refusal": "b"}),
        chunk({"content": "a", "tool_calls": [{"index": 0}]}),
        chunk({"content": "a"}, "length"),
        chunk({}),
        usual("a", usage={"completion_tokens": 1}),
        usual("a", error={"message": "x"}),
        event({"choices": [{"delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]}),
        event({"choices": [{"delta": {"content": "a", "content ": "a"}}]}),
        event('{"note": "a", "choices": [{"delta": {"content": "\\u0061"}}]}'),
    ],
)
def test_nothing_is_learnt_from_what_is_more_than_one_text(text: str) -> None:
    assert pattern(text) is None


def test_the_text_that_counts_is_the_one_that_is_learnt() -> None:
    twice = 'data: {"choices": [{"delta": {"content": "first", "content": "last"}}]}\n\n'
    found = pattern(twice)
    assert found is not None
    assert found.run([twice.replace('"last"', '"other"').encode()], 0) == ["other"]


@pytest.mark.parametrize("field", ["content", "reasoning_content", "reasoning"])
def test_reasoning_is_told_from_the_answer(field: str) -> None:
    answer = Answer()
    reads = [chunk({field: text}) for text in ("One", " two", " three")] + [usual(" end"), STOP, DONE]
    answer.feed_all([read.encode() for read in reads], list(range(len(reads))))
    answer.close()
    thought = "" if field == "content" else "One two three"
    assert (answer.reasoning_text, answer.text) == (thought, "One two three end" if not thought else " end")
    assert (answer.chunk_marks, answer.first_answer_mark) == ([0, 1, 2, 3], 0 if not thought else 3)


NASTY = st.text('ab,"\\\\n\n\x7f\x01é', max_size=4) | st.sampled_from(
    ["", '","', '"]', '["', "\\ud83d", "\\u0041", '\\"']
)


@given(st.lists(NASTY, min_size=1, max_size=12), st.lists(st.integers(0, 60), max_size=4))
@example(["x\\", ',"y'], [])  # neither is text, but both would be as one list
def test_texts_read_together_are_those_that_each_would_give(texts: list[str], cuts: list[int]) -> None:
    found = pattern(usual("Hello"))
    assert found is not None
    reads = [found.head + text.encode() + found.tail for text in texts]
    for at in cuts:  # two reads as one, or cut elsewhere than between two events
        at %= len(reads)
        joined = b"".join(reads[at : at + 2])
        reads[at : at + 2] = [joined] if at % 2 else [joined[: len(joined) // 3], joined[len(joined) // 3 :]]
    start = 0
    while start < len(reads):
        follow = found.run(reads, start)
        for text, read in zip(follow, reads[start:], strict=False):
            assert decode_chunk(read[6:-2]).choices[0].delta.content == text != ""
        start += len(follow)
        if start < len(reads) and not follow:
            plain = reads[start].removeprefix(found.head).removesuffix(found.tail)
            assert len(plain) != len(reads[start]) - len(found.head + found.tail) or not is_text(plain)
            start += 1


def is_text(data: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(b'"' + data + b'"'), str) and data != b""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


TEXTS = st.text(max_size=6) | st.sampled_from([" a", "id", "content", "\\", '"', "\ud83d", "", " 你"])
PIECES = st.builds(
    chunk,
    st.fixed_dictionaries({}, optional={"content": TEXTS, "reasoning_content": TEXTS, "role": st.just("assistant")}),
    st.sampled_from([None, None, None, "stop", ""]),
    st.sampled_from([0, 0, 0, 1]),
    created=st.sampled_from([1, 1, 1, 2]),
)
STREAM = st.lists(PIECES | TEXTS.map(usual) | st.sampled_from([DONE, ": ping\n\n", event({"usage": {}})]), max_size=30)


@given(STREAM, st.booleans())
def test_a_stream_means_the_same_with_and_without_patterns(stream: list[str], keep_text: bool) -> None:
    whole, cut = Answer(keep_text=keep_text), Answer(keep_text=keep_text)
    reads = [text.encode("utf-8", "surrogatepass") for text in stream]
    whole.feed_all(reads, list(range(len(reads))))
    for mark, read in enumerate(reads):  # in two reads each: no read is a whole event
        cut.feed(read[:3], mark)
        cut.feed(read[3:], mark)
    whole.close()
    cut.close()
    assert seen(whole) == seen(cut)
    assert (whole.chunk_marks, whole.first_answer_mark) == (cut.chunk_marks, cut.first_answer_mark)


@given(
    st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=8),
    st.sampled_from(["plain", "whole again", "cumulative"]),
    st.booleans(),
)
def test_a_long_answer_that_was_folded_means_the_same(texts: list[str], kind: str, reasons: bool) -> None:
    texts = (texts * MANY_PIECES)[: 3 * MANY_PIECES // 2]
    if kind == "cumulative":
        texts = ["".join(texts[:count]) for count in range(1, len(texts) + 1)]
    stream = [chunk({"reasoning": text}) for text in texts if reasons]
    stream += [usual(text) for text in texts]
    stream += [usual("".join(texts))] if kind == "whole again" else []
    plain, folded = Answer(), Answer()
    for mark, read in enumerate(stream):
        plain.feed(read.encode(), mark)
        folded.feed(read.encode(), mark)
        if mark % 100 == 0:
            folded.fold()
    folded.fold()
    plain.close()
    folded.close()
    assert seen(plain) == seen(folded)


def test_what_waits_for_its_end_takes_little_memory() -> None:
    answer = Answer(keep_text=False)
    reads = [usual(f" word{number}").encode() for number in range(4 * MANY_PIECES)]
    answer.feed_all(reads, list(range(len(reads))))
    before = len(answer._choices[0].content)
    answer.fold()
    assert (before, len(answer._choices[0].content), answer.chunk_texts) == (4 * MANY_PIECES, 2, [])
    answer.feed_all(reads, list(range(len(reads))))
    answer.close()
    assert answer.text.startswith(" word0 word1")
    assert answer.text.count(" word0") == 2
