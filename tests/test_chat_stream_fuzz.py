"""No JSON and no bytes make an answer crash, and where a stream is cut changes nothing."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.streamed import DONE, STOP, chunk, event, read, seen, warned, words
from tokenswarm.errors import End, classify
from tokenswarm.record import Outcome

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
DELTA_KEYS = st.sampled_from(
    [
        "content",
        "reasoning",
        "reasoning_content",
        "tool_calls",
        "function_call",
        "refusal",
        "audio",
        "images",
        "thinking",
    ]
)
KEYS = st.sampled_from(
    ["choices", "usage", "error", "object", "x_groq", "detail", "message", "code", "base_resp", "type"]
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "delta": JSON | st.dictionaries(DELTA_KEYS, JSON),
        "message": JSON | st.dictionaries(DELTA_KEYS, JSON),
        "index": JSON,
        "finish_reason": JSON,
        "error": JSON,
        "text": JSON,
    },
)
OBJECT = st.fixed_dictionaries({}, optional={"choices": st.lists(CHOICE | JSON, max_size=3)}) | st.dictionaries(
    KEYS, JSON
)


@settings(max_examples=300)
@given(st.lists(OBJECT | JSON, max_size=4), st.booleans(), st.sampled_from([200, 400, 503]))
def test_no_json_makes_it_crash(objects: list[Any], in_events: bool, status: int) -> None:
    texts = [json.dumps(obj) for obj in objects]
    answer = read([event(text) for text in texts] if in_events else texts)
    verdict = classify(End.COMPLETE, status, answer, None)
    assert (verdict.outcome is Outcome.OK) <= (status == 200)
    json.dumps([answer.text, answer.chunk_texts, answer.finish_reason, verdict.detail]).encode()
    assert len(answer.chunk_marks) == len(answer.chunk_texts) == len(answer.running_tokens)
    warned(answer)


@given(st.lists(st.binary(max_size=60), max_size=6), st.sampled_from([None, "gzip", "deflate", "br", "zstd"]))
def test_no_bytes_make_it_crash(pieces: list[bytes], encoding: str | None) -> None:
    warned(read(pieces, "text/event-stream", encoding))


@pytest.mark.parametrize("bomb", ["[" * 100_000, '{"a":' * 100_000, '{"choices":[{"delta":{"content":' + "[" * 5000])
def test_deep_json(bomb: str) -> None:
    read([event(bomb), bomb])
    read([bomb])
    read([*words("a"), f"error: {bomb}\n\n"])
    depth = 400
    read([chunk({}).replace("{}", '{"content":' + "[" * depth + "]" * depth + "}")])
    read([chunk({}).replace("{}", '{"content":' + "9" * 5000 + "}")])


@pytest.mark.parametrize("depth", [600, 900, 990, 1500])
@pytest.mark.parametrize("place", ["content", "reasoning_details", "thinking", "images", "audio", "refusal"])
def test_deep_json_that_can_just_be_read(depth: int, place: str) -> None:
    for opening, closing in (("[", "]"), ('{"text":', "}")):
        deep = json.dumps({place: 1}).replace("1", opening * depth + "1" + closing * depth)
        answer = read([*words("a"), chunk({}).replace("{}", deep), STOP, DONE])
        assert (answer.text[:1], answer.finish_reason, answer.done_seen) == ("a", "stop", True)


@given(
    st.lists(st.sampled_from([*words("a", "déjà", "🎈"), STOP, DONE, ": c\n\n", event("{"), "junk\n"]), max_size=8),
    st.lists(st.integers(0, 600), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_any_cut_gives_the_same_answer(parts: list[str], cuts: list[int], newline: str) -> None:
    data = "".join(parts).replace("\n", newline).encode()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(edges)]
    assert seen(read(pieces)) == seen(read([data]))
