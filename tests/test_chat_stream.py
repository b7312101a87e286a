"""What servers send, and what an answer is made of: captured streams, dialects, odd types, cuts anywhere."""

import json
import pathlib
import random
from typing import Any

import pytest

from tests.streamed import DONE, STOP, chunk, event, read, seen, warned, words
from tokenswarm.chat_stream import Answer
from tokenswarm.choice import is_abort
from tokenswarm.errors import End, classify
from tokenswarm.record import Caution, ErrorClass, Outcome
from tokenswarm.sse import LINE_LIMIT_BYTES, LineTooLong
from tokenswarm.usage import Usage, chunk_tokens

STREAMS = pathlib.Path(__file__).with_name("streams")


def test_an_error_in_a_field_of_that_name() -> None:
    """As older llama.cpp servers send it, in mid answer or at once."""
    field = 'error: {"code": 503, "message": "slot unavailable", "type": "unavailable_error"}\n\n'
    for stream in ([*words("a", " b"), field], [field]):
        answer = read(stream)
        assert answer.error is not None
        assert (answer.error.message, answer.malformed_events) == ("slot unavailable", 0)
        assert classify(End.COMPLETE, 200, answer, None).error_class is ErrorClass.OVERLOADED
    odd = read([*words("a"), "error: out of memory\n\n"])
    assert odd.error is not None
    assert odd.error.message == "out of memory"


# ---- captured streams ----

CAPTURED = {  # file: (chunks, completion tokens, finish_reason, done, outcome, class)
    "die_direct.sse": (127, None, None, False, Outcome.FAILED, ErrorClass.CONNECTION_RESET),
    "litellm_llamacpp_stream_usage.sse": (32, 32, "length", True, Outcome.OK, None),
    "litellm_mock_stream_usage.sse": (49, 34, "stop", True, Outcome.OK, None),
    "llamacpppython_conc00.sse": (0, None, None, True, Outcome.EMPTY, ErrorClass.EMPTY_RESPONSE),
    "llamacpppython_stream_usage.sse": (32, None, "length", True, Outcome.OK, None),
    "transformers_stream_usage.sse": (30, 32, "length", False, Outcome.OK, None),
    "transformers_unknown_param.sse": (0, None, None, False, Outcome.FAILED, ErrorClass.UNSUPPORTED_PARAMETER),
    "vllm_200_instream_503.sse": (0, None, None, True, Outcome.FAILED, ErrorClass.OVERLOADED),
    "vllm_admission_rejected.txt": (0, None, None, False, Outcome.FAILED, ErrorClass.OVERLOADED),
    "vllm_chat.sse": (6, 6, "length", True, Outcome.OK, None),
    "vllm_continuous_usage.sse": (2, 3, "length", True, Outcome.OK, None),
    "vllm_stream_usage.sse": (32, 32, "length", True, Outcome.OK, None),
    "xllamacpp_stream_usage.sse": (32, 32, "length", True, Outcome.OK, None),
}


def captured(name: str) -> tuple[int, bytes]:
    """(status, body): some files begin with the response head."""
    raw = (STREAMS / name).read_bytes()
    if raw.startswith(b"HTTP/1.1 "):
        head, _, body = raw.replace(b"\r\n", b"\n").partition(b"\n\n")
        return int(head[9:12]), body
    return (422 if name == "transformers_unknown_param.sse" else 200), raw


def test_every_captured_stream_is_listed() -> None:
    assert {path.name for path in STREAMS.iterdir()} == set(CAPTURED)


@pytest.mark.parametrize("name", CAPTURED)
def test_captured_stream(name: str) -> None:
    status, body = captured(name)
    chunks, tokens, finish, done, outcome, error_class = CAPTURED[name]
    whole = read([body])
    assert len(whole.chunk_marks) == chunks
    assert (whole.usage.completion_tokens if whole.usage else None) == tokens
    assert (whole.finish_reason, whole.done_seen) == (finish, done)
    verdict = classify(End.RESET if name == "die_direct.sse" else End.COMPLETE, status, whole, None)
    assert (verdict.outcome, verdict.error_class) == (outcome, error_class)
    assert whole.malformed_events == 0

    assert seen(read(body[i : i + 1] for i in range(len(body)))) == seen(whole)
    for seed in range(5):
        edges = sorted(random.Random(seed).sample(range(len(body)), k=min(20, len(body) - 1)))
        assert seen(read(body[a:b] for a, b in zip([0, *edges], [*edges, len(body)], strict=True))) == seen(whole)


def test_running_usage_of_a_captured_stream() -> None:
    answer = read([captured("vllm_continuous_usage.sse")[1]])
    assert answer.running_tokens == [1, 2]
    assert answer.chunk_tokens == [1, 1]
    assert answer.usage == Usage(68, 3)


# ---- what is output ----

OUTPUT = [
    ({"content": "a"}, "a"),
    ({"content": " "}, " "),
    ({"role": "assistant", "content": "a"}, "a"),
    ({"reasoning_content": "r"}, "r"),
    ({"reasoning": "r", "reasoning_content": "r"}, "r"),
    ({"content": None, "reasoning": "r", "reasoning_details": [{"type": "reasoning.text", "text": "r"}]}, "r"),
    ({"reasoning_details": [{"type": "reasoning.text", "text": "r"}]}, "r"),
    ({"content": "a", "reasoning_content": "r"}, "ra"),
    ({"tool_calls": [{"index": 0, "id": "t1", "function": {"name": "look", "arguments": ""}}]}, "look"),
    ({"tool_calls": [{"index": 0, "id": "t1", "function": {"name": None, "arguments": None}}]}, ""),
    ({"tool_calls": [{"index": 0, "function": {"arguments": '{"q"'}}]}, '{"q"'),
    ({"tool_calls": [{"function": {"name": "f", "arguments": {"q": 1}}}]}, 'f{"q": 1}'),
    ({"function_call": {"name": "f", "arguments": "{}"}}, "f{}"),
    ({"refusal": "I cannot"}, "I cannot"),
    ({"audio": {"id": "a1", "data": "UklG"}}, "UklG"),
    ({"audio": {"transcript": "hello"}}, "hello"),
    ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
    ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}, "hm"),
    ({"content": {"text": "a"}}, "a"),
    ({"content": 5}, "5"),
    ({"content": "a", "tool_calls": None, "annotations": [], "refusal": None}, "a"),
]


@pytest.mark.parametrize(("delta", "text"), OUTPUT)
def test_output(delta: dict[str, Any], text: str) -> None:
    answer = read([chunk({"role": "assistant", "content": ""}), chunk(delta), STOP, DONE])
    assert (answer.chunk_marks, answer.chunk_texts) == ([2], [text])
    assert answer.has_output


NO_OUTPUT = [
    chunk({"role": "assistant"}),
    chunk({"role": "assistant", "content": ""}),
    chunk({"role": "assistant", "content": None, "refusal": None, "tool_calls": None}),
    chunk({"content": "", "reasoning_content": None, "tool_calls": []}),
    chunk({"tool_calls": [{"index": 0, "type": "function", "function": {"arguments": ""}}]}),
    chunk({"content": []}),
    chunk({"audio": {"id": "a1", "expires_at": 1}}),
    chunk({}),
    chunk(None),
    event({"choices": None}),
    event({"choices": []}),
    event({"choices": [None]}),
    event({"choices": [{}]}),
    event({"choices": [], "usage": None}),
    event({"id": "", "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
    event({"choices": [{"index": 0, "content_filter_results": {}, "finish_reason": None}]}),
    event({"type": "ping"}, "ping"),
    event("{}"),
    event("null"),
    "data:\n\n",
    ": OPENROUTER PROCESSING\n\n",
    "retry: 3000\n\n",
    "id: 7\n\n",
    "unknown-field: x\n\n",
]


@pytest.mark.parametrize("event_text", NO_OUTPUT)
def test_no_output(event_text: str) -> None:
    answer = read([event_text, *words("a", "b"), event_text, STOP, event_text, DONE])
    assert (answer.chunk_marks, answer.text, answer.finish_reason) == ([2, 3], "ab", "stop")
    assert (answer.malformed_events, answer.error) == (0, None)
    assert classify(End.COMPLETE, 200, answer, None).outcome is Outcome.OK


def test_text_and_finish_share_a_chunk() -> None:
    answer = read([*words("x"), chunk({"content": "y"}, "length"), DONE])
    assert (answer.text, answer.finish_reason, answer.chunk_marks) == ("xy", "length", [1, 2])


def test_choices_interleaved() -> None:
    stream = [chunk({"content": t}, index=i) for i, t in [(1, "b"), (0, "a"), (1, "B"), (0, "A")]]
    answer = read([*stream, chunk({}, "stop", 0), chunk({}, "length", 1), DONE])
    assert answer.texts == {0: "aA", 1: "bB"}
    assert (answer.text, answer.finish_reason, len(answer.chunk_marks)) == ("aA", "stop", 4)
    aborted = read([*stream, chunk({}, "stop", 0), chunk({}, "abort", 1), DONE])
    assert aborted.aborted


def test_every_choice_has_to_come_to_its_end() -> None:
    stream = [chunk({"content": "a"}, index=0), chunk({"content": "b"}, index=1), chunk({}, "stop", 1)]
    assert classify(End.COMPLETE, 200, read(stream), None).error_class is ErrorClass.STREAM_TRUNCATED
    for end in (chunk({}, "stop", 0), DONE):
        assert classify(End.COMPLETE, 200, read([*stream, end]), None).outcome is Outcome.OK
    assert Caution.FINISH_REASON_MISSING in warned(read([*stream, DONE]))


@pytest.mark.parametrize("nothing", [None, "", "null", "None", {}, False])
def test_a_finish_reason_that_says_nothing_is_none(nothing: Any) -> None:
    answer = read([chunk({"content": text}, nothing) for text in "abc"])
    assert (answer.finish_reason, len(answer.chunk_marks)) == (None, 3)
    assert classify(End.COMPLETE, 200, answer, None).error_class is ErrorClass.STREAM_TRUNCATED


@pytest.mark.parametrize(
    ("told", "reason"), [({"type": "length", "length": 10}, "length"), ({"reason": "stop"}, "stop"), (7, "7")]
)
def test_a_finish_reason_of_another_type(told: Any, reason: str) -> None:
    assert read([*words("a"), chunk({}, told), DONE]).finish_reason == reason


def test_first_answer_comes_after_reasoning() -> None:
    answer = read([chunk({"reasoning": "hm"}), chunk({"tool_calls": [{"id": "t"}]}), *words("It"), STOP, DONE])
    assert (answer.chunk_marks, answer.first_answer_mark) == ([1, 2, 3], 3)
    assert (answer.text, answer.reasoning_text) == ("It", "hm")


def test_legacy_completion_stream() -> None:
    texts = [event({"object": "text_completion", "choices": [{"index": 0, "text": t, "finish_reason": f}]})
             for t, f in [("a", None), (" b", None), ("", "stop")]]  # fmt: skip
    answer = read([*texts, DONE])
    assert (answer.text, answer.chunk_marks, answer.finish_reason, answer.first_answer_mark) == (
        "a b",
        [1, 2],
        "stop",
        1,
    )


def test_tool_calls_are_put_together_call_by_call() -> None:
    def call(index: int, **function: str) -> str:
        return chunk({"tool_calls": [{"index": index, "function": function}]})

    answer = read(
        [call(0, name="f", arguments='{"a"'), call(1, name="g", arguments="{}"), call(0, arguments=":1}"), DONE]
    )
    assert answer.tool_arguments == '{"a":1}{}'


def test_a_whole_message_in_one_event() -> None:
    message = {"choices": [{"index": 0, "message": {"content": "All at once"}, "finish_reason": "stop"}]}
    answer = read([event(message), DONE])
    assert (answer.text, answer.chunk_marks, answer.streamed) == ("All at once", [1], True)
    several = [event({"choices": [{"index": 0, "message": {"content": text}}]}) for text in ("All", " at", " once")]
    assert (read([*several, STOP, DONE]).text, read([*several, STOP, DONE]).chunk_marks) == ("All at once", [1, 2, 3])
    repeated = read([*words("All"), event({"choices": [{"index": 0, "message": {"content": "All"}}]}), DONE])
    assert (repeated.text, repeated.chunk_marks) == ("All", [1])


# ---- [DONE], separators, marks ----


@pytest.mark.parametrize("done", ["[DONE]", " [DONE] ", '"[DONE]"', "[done]"])
def test_done_in_any_spelling(done: str) -> None:
    answer = read([*words("a"), STOP, event(done), *words("after"), "garbage\n", b"\x00\xff"])
    assert (answer.done_seen, answer.text, answer.chunk_marks) == (True, "a", [1])
    assert read([*words("a"), STOP, "data: [DONE]"]).done_seen


def test_what_counts_of_usage_told_twice() -> None:
    """The last value of each count, but a zero is none: placeholders come first, last and in between."""
    told = [(0, 0), (7, 0), (7, 3), (0, 4), (7, 0), (None, None), (0, 0)]
    usages = [{"prompt_tokens": prompt, "completion_tokens": output} for prompt, output in told]
    for place in ({}, {"content": ""}):
        answer = read([*words("a", "b"), *(chunk(place, usage=usage) for usage in usages), STOP, DONE])
        assert answer.usage == Usage(7, 4)
    assert read([*words("a"), chunk({}, "stop", usage=usages[1]), DONE]).usage == Usage(7, None)


def test_usage_after_done_counts() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    assert read([*words("a"), STOP, DONE, event({"choices": [], "usage": usage})]).usage == Usage(1, 2)


def test_events_that_one_line_end_separates() -> None:
    lines = [text.replace("\n\n", "\n") for text in (*words("a", "b"), STOP, DONE)]
    answer = read(lines)
    assert (answer.text, answer.chunk_marks, answer.done_seen, answer.malformed_events) == ("ab", [1, 2], True, 0)
    assert seen(read(["".join(lines)])) == seen(answer)


def test_one_json_over_several_data_lines() -> None:
    answer = read(['data: {"choices":\ndata: [{"index":0,\ndata: "delta":{"content":"a"}}]}\n\n', DONE])
    assert (answer.text, answer.malformed_events) == ("a", 0)


def test_chunks_that_nothing_separates() -> None:
    """A proxy that lost line ends: several JSON texts in one event, with or without the prefix, one cut off."""
    first, second = (text[len("data: ") :].strip() for text in words("a", "b"))
    for glue in ("", " ", "data: ", " data:"):
        answer = read([event(first + glue + second), *words("c"), STOP, DONE])
        assert (answer.text, answer.chunk_marks, answer.malformed_events) == ("abc", [1, 1, 2], 0)
    answer = read([event(first + "data: [DONE]")])
    assert (answer.text, answer.done_seen, answer.malformed_events) == ("a", True, 0)
    cut = read([event(first + second[:-9]), *words("c"), STOP, DONE])
    assert (cut.text, cut.malformed_events) == ("ac", 1)
    assert read([*words("x"), "data: " + first + second[:-9]]).malformed_events == 0
    assert read([event("{}" * 400_000), *words("b")]).malformed_events == 1  # what is no answer is not read to its end


def test_a_prefix_put_twice() -> None:
    assert read(["data: " + words("a")[0], STOP, "data: data: [DONE]\n\n"]).text == "a"


def test_a_chunk_that_was_cut_off_is_not_malformed() -> None:
    answer = read([*words("This"), words("is")[0][:30]])
    assert (answer.text, answer.malformed_events) == ("This", 0)
    assert classify(End.COMPLETE, 200, answer, None).error_class is ErrorClass.STREAM_TRUNCATED


# ---- usage ----

USAGES = [
    ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}, Usage(5, 2)),
    ({"input_tokens": 5, "output_tokens": 2}, Usage(5, 2)),
    ({"prompt_tokens": "5", "completion_tokens": 2.0}, Usage(5, 2)),
    ({"prompt_tokens": 5, "completion_tokens": 2, "completion_tokens_details": None}, Usage(5, 2)),
    (
        {"prompt_tokens": 5, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}},
        Usage(5, 2, 1),
    ),
    (
        {"prompt_tokens": 5, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 0}},
        Usage(5, 2, 0),
    ),
    ({"prompt_tokens": 5, "completion_tokens": 2, "reasoning_tokens": 1}, Usage(5, 2, 1)),
    ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(5, 2, None, 4)),
    ({"prompt_tokens": 5, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, Usage(5, 2, None, 4)),
    # xAI counts reasoning apart from the completion, as the total tells
    (
        {
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "total_tokens": 17,
            "completion_tokens_details": {"reasoning_tokens": 10},
        },
        Usage(5, 12, 10),
    ),
    (
        {
            "prompt_tokens": 5,
            "completion_tokens": 12,
            "total_tokens": 17,
            "completion_tokens_details": {"reasoning_tokens": 10},
        },
        Usage(5, 12, 10),
    ),
    ({"prompt_tokens": -1, "completion_tokens": None}, None),
    ({"prompt_tokens": True, "completion_tokens": "many"}, None),
    ({}, None),
    (None, None),
    ([1], None),
]


@pytest.mark.parametrize(("told", "usage"), USAGES)
@pytest.mark.parametrize(
    "place", ["own", "no choices", "named", "empty delta", "finish", "x_groq", "choice", "message", "after done"]
)
def test_usage_wherever_it_rides(told: Any, usage: Usage | None, place: str) -> None:
    rides = {
        "own": [STOP, event({"choices": [], "usage": told})],
        "empty delta": [STOP, chunk({}, usage=told)],
        "finish": [chunk({"role": "assistant", "content": None}, "stop", usage=told)],
        "x_groq": [chunk({}, "stop", x_groq={"id": "r", "usage": told})],
        "no choices": [STOP, event({"usage": told})],
        "named": [STOP, event({"usage": told}, "usage")],
        "choice": [event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": told}]})],
        "message": [STOP, event({"choices": [{"index": 0, "message": {"content": "ab"}}], "usage": told})],
        "after done": [STOP, DONE, chunk({}, usage=told)],
    }
    answer = read([*words("a", "b"), *rides[place], chunk({}, usage=None), DONE])
    assert answer.usage == usage
    assert (answer.chunk_marks, answer.finish_reason, answer.malformed_events) == ([1, 2], "stop", 0)


def test_zeros_are_a_placeholder() -> None:
    zero = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    told = {"prompt_tokens": 3, "completion_tokens": 2}
    answer = read([*words("a", "b"), chunk({}, "stop", usage=told), event({"choices": [], "usage": zero}), DONE])
    assert answer.usage == Usage(3, 2)
    only_zero = read([*words("a", "b"), chunk({}, "stop", usage=zero), DONE])
    assert only_zero.usage is not None
    assert only_zero.usage.completion_tokens is None
    assert Caution.USAGE_MISSING in warned(only_zero)


@pytest.mark.parametrize(
    ("running", "total", "tokens"),
    [
        ([1, 2, 3], 3, [1, 1, 1]),
        ([1, 3, 6], 6, [1, 2, 3]),
        ([2, 2, 4], 5, [2, 0, 2]),
        ([1, 2], 3, [1, 1]),  # the last token had no text
        ([1, 1, 2, 2], 6, [1, 1, 2, 2]),
        ([1, 1, 1], 3, [1, 1, 1]),  # per chunk, not running
        ([1, 2, 1], 4, [1, 2, 1]),
        ([3, 2, 1], 9, None),
        ([5, 5, 5], 5, None),
        ([1, None, 3], 3, None),
        ([4], 4, [4]),
        ([], None, None),
    ],
)
def test_tokens_of_each_chunk(running: list[int | None], total: int | None, tokens: list[int] | None) -> None:
    assert chunk_tokens(running, total) == tokens


# ---- one body instead of a stream ----

BODY = {
    "id": "c-1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "All at once"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 6, "completion_tokens": 3},
}


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", None])
@pytest.mark.parametrize("indent", [None, 2])
def test_one_json_body(content_type: str | None, indent: int | None) -> None:
    text = json.dumps(BODY, indent=indent)
    for pieces in ([text], list(text), ["\n ", text, "\n"]):
        answer = read(pieces, content_type)
        assert (answer.streamed, answer.text, answer.finish_reason) == (False, "All at once", "stop")
        assert (answer.usage, answer.chunk_marks, answer.first_answer_mark) == (Usage(6, 3), [], None)
        assert classify(End.COMPLETE, 200, answer, None).outcome is Outcome.OK
        assert Caution.NOT_STREAMED in warned(answer)


def test_an_empty_json_body_is_empty() -> None:
    body = {**BODY, "choices": [{"index": 0, "message": {"content": ""}, "finish_reason": "stop"}]}
    assert classify(End.COMPLETE, 200, read([json.dumps(body)]), None).outcome is Outcome.EMPTY


def test_a_stream_under_a_lying_content_type() -> None:
    assert read([*words("a"), STOP, DONE], "application/json").text == "a"
    assert read(["\ufeff", *words("a"), STOP, DONE], "text/plain").text == "a"


@pytest.mark.parametrize("page", ["<html><body>x</body></html>", "<!DOCTYPE html>\n<p>x", "\n<!-- c --><html>x"])
def test_a_page(page: str) -> None:
    answer = read([page], "text/html")
    assert answer.is_html
    assert classify(End.COMPLETE, 200, answer, None).error_class is ErrorClass.MALFORMED_STREAM


def test_a_body_without_end_is_refused() -> None:
    answer = Answer()
    answer.feed(b"{", 0)
    piece = b" " * (1 << 20)
    for _ in range(LINE_LIMIT_BYTES // len(piece) - 1):
        answer.feed(piece, 0)
    with pytest.raises(LineTooLong):
        answer.feed(piece + b" ", 0)


# ---- odd text ----


def test_bytes_that_are_no_utf8() -> None:
    answer = read([chunk({"content": "d\xe9j\xe0"}).encode("latin-1"), STOP, DONE])
    assert (answer.text, answer.replacement_chars, answer.malformed_events) == ("d�j�", 2, 0)
    assert Caution.REPLACEMENT_CHARS in warned(answer)


def test_surrogate_halves_in_two_chunks() -> None:
    halves = [words("x")[0].replace('"x"', half) for half in ('"\\ud83c"', '"\\udf88"')]
    answer = read([*halves, STOP, DONE])
    assert (answer.text, answer.replacement_chars) == ("🎈", 0)
    assert answer.chunk_texts == ["�", "�"]
    assert read([halves[0], STOP, DONE]).text == "�"


def test_raw_control_characters_in_json() -> None:
    assert read([words("x")[0].replace('"x"', '"a\tb"'), STOP, DONE]).text == "a\tb"


def test_text_is_never_interpreted() -> None:
    said = 'data: {"error": {"message": "rate limit"}}\n\n<script>[DONE] error: 503 overloaded</script>'
    answer = read([*words(said, "[DONE]", "error"), STOP, DONE])
    assert (answer.text, answer.error) == (said + "[DONE]error", None)
    assert classify(End.COMPLETE, 200, answer, None).outcome is Outcome.OK


def test_garbage_between_good_events() -> None:
    answer = read([*words("a"), event("{broken"), event("[1]"), event('"text"'), event("7"), *words("b"), STOP, DONE])
    assert (answer.text, answer.malformed_events) == ("ab", 4)
    assert classify(End.COMPLETE, 200, answer, None).outcome is Outcome.OK
    assert Caution.MALFORMED_EVENT in warned(answer)
    assert Caution.MALFORMED_EVENT in warned(read([*words("a"), "what is this?\n", STOP, DONE]))


# ---- repeats ----


def test_every_chunk_repeats_the_text_so_far() -> None:
    answer = read([*words("The", "The cat", "The cat sat"), STOP, DONE])
    assert (answer.text, answer.cumulative, len(answer.chunk_marks)) == ("The cat sat", True, 3)
    assert Caution.CUMULATIVE_CHUNK in warned(answer)


def test_the_last_chunk_repeats_the_answer() -> None:
    answer = read([*words("The", " cat", " sat"), chunk({"content": "The cat sat"}, "stop"), DONE])
    assert (answer.text, answer.cumulative) == ("The cat sat", True)


@pytest.mark.parametrize(
    "texts", [["a", "a", "a"], ["ha", "ha", "haha"], ["1", "10", "2"], ["a", "ab"], [" ", "  ", " "]]
)
def test_words_that_only_look_like_repeats(texts: list[str]) -> None:
    answer = read([*words(*texts), STOP, DONE])
    assert (answer.text, answer.cumulative) == ("".join(texts), False)


# ---- engines that give up ----


@pytest.mark.parametrize(
    "reason",
    [
        *("abort", "ERROR", "cancelled", "FINISH_REASON_ERROR", "error: out of memory", "FinishReason.ABORT"),
        *("internal_server_error", "ERROR_LIMIT", "engine-dead-error", "EngineError", "request_aborted", "timed_out"),
        *("insufficient_system_resource", "generation failed"),
    ],
)
def test_abort(reason: str) -> None:
    assert is_abort(reason)
    verdict = classify(End.COMPLETE, 200, read([*words("I"), chunk({}, reason), DONE]), None)
    assert (verdict.outcome, verdict.error_class) == (Outcome.FAILED, ErrorClass.ABORTED)


@pytest.mark.parametrize(
    "reason",
    [
        *("stop", "length", "tool_calls", "content_filter", "eos_token", "end_turn", "unknown", "model_length"),
        *("MALFORMED_FUNCTION_CALL", "SAFETY", "repetition", "COMPLETE", "FINISH_REASON_UNSPECIFIED", "</terror>"),
    ],
)
def test_no_abort(reason: str) -> None:
    assert classify(End.COMPLETE, 200, read([*words("I"), chunk({}, reason), DONE]), None).outcome is Outcome.OK
