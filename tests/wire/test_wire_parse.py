"""Every recorded answer, fed straight into the parser and the classifier: no socket, no clock."""

from typing import Any

import pytest
from replay import chunk_bytes
from transcripts import CASES, answers, outcome

from tokenswarm.cautions import cautions
from tokenswarm.chat_stream import Answer
from tokenswarm.errors import End, classify, retry_after_s, unsupported_param
from tokenswarm.record import Caution, TokensFrom

MS = 1_000_000  # ns


def cut_off(client: dict[str, Any], answer: Answer, at_ms: int, silent_ms: int) -> End | None:
    """Which of the client's limits is over at `at_ms`, after `silent_ms` without a byte."""
    if at_ms > client.get("total_timeout_ms", at_ms):
        return End.TIMEOUT_TOTAL
    if not answer.chunk_marks:
        return End.TIMEOUT_FIRST_TOKEN if at_ms > client.get("first_token_timeout_ms", at_ms) else None
    return End.TIMEOUT_STALL if silent_ms > client.get("idle_timeout_ms", silent_ms) else None


def play(sent: dict[str, Any], client: dict[str, Any]) -> tuple[Answer, End]:
    """The answer, with marks in ns since the request was sent; cut off where the client's limits say so."""
    headers = {name.lower(): value for name, value in sent["headers"].items()}
    answer = Answer(headers.get("content-type"), headers.get("content-encoding"))
    at_ms = 0
    for chunk in sent["chunks"]:
        at_ms += chunk["delay_ms"]
        limit = cut_off(client, answer, at_ms, chunk["delay_ms"])
        if limit is not None:
            answer.close(at_ms * MS)
            return answer, limit
        answer.feed(chunk_bytes(chunk), at_ms * MS)
    answer.close(at_ms * MS)
    return answer, End.RESET if sent["close"] == "abrupt" else End.COMPLETE


def chunk_at(sent: dict[str, Any], mark: int | None) -> int | None:
    """The index of the (last) chunk that was sent at `mark`, leaving out those that follow without any delay."""
    at_ms, found = 0, None
    for index, chunk in enumerate(sent["chunks"]):
        at_ms += chunk["delay_ms"]
        if mark == at_ms * MS and found is None:
            found = index
    return found


PAIRS = [
    pytest.param(case, sent, expected, id=f"{case['id']}-{number}")
    for case in CASES
    for number, (sent, expected) in enumerate(answers(case))
]


@pytest.mark.parametrize(("case", "sent", "expected"), PAIRS)
def test_recorded_answer(case: dict[str, Any], sent: dict[str, Any], expected: dict[str, Any]) -> None:
    client = case["input"].get("client", {})
    request = sent.get("request") or case["input"].get("request") or {}
    if sent.get("drop_before_response"):
        verdict = classify(End.RESET, None, None, None)
        assert (verdict.outcome, verdict.error_class) == outcome(expected)
        return
    answer, end = play(sent, client)
    verdict = classify(end, sent["status"], answer, None)

    assert (verdict.outcome, verdict.error_class) == outcome(expected), verdict
    assert "\n" not in (verdict.detail or "")
    assert sent["status"] == expected["http_status"]
    check_chunks(sent, answer, expected)
    check_contents(answer, expected)
    found = cautions(
        answer,
        sent_mark=0,
        max_tokens=request.get("max_tokens"),
        ignore_eos=bool(request.get("ignore_eos")),
        expected_prompt_tokens=request.get("prompt_tokens_by_tokenizer"),
        prompt_words=None,
    )
    assert {Caution(name) for name in expected.get("warnings", [])} <= set(found)
    assert (Caution.NOT_STREAMED in found) == (expected.get("streamed") is False)
    if "param" in expected:
        assert unsupported_param(answer.error) == expected["param"]
    if "error_message" in expected:
        assert verdict.detail == expected["error_message"]
    if "retry_after_s" in expected:
        assert retry_after_s(sent["headers"], 0.0) == expected["retry_after_s"]


def check_chunks(sent: dict[str, Any], answer: Answer, expected: dict[str, Any]) -> None:
    marks = answer.chunk_marks
    assert len(marks) == len(answer.chunk_texts)
    if "token_timestamps" in expected:
        assert len(marks) == expected["token_timestamps"]
    if "ttft_chunk" in expected:
        assert chunk_at(sent, marks[0] if marks else None) == expected["ttft_chunk"]
    if "first_content_chunk" in expected:
        assert chunk_at(sent, answer.first_answer_mark) == expected["first_content_chunk"]
    for name, mark in (("ttft_ms_nominal", marks[:1]), ("e2e_ms_nominal", marks[-1:])):
        if name in expected and mark:
            assert mark == [expected[name] * MS]
    if "ttfo_ms_nominal" in expected:
        assert answer.first_answer_mark == expected["ttfo_ms_nominal"] * MS
    if "arrival_groups" in expected:
        assert len(set(marks)) == expected["arrival_groups"]
    if "tokens_per_event" in expected:
        assert answer.chunk_tokens == expected["tokens_per_event"]


def check_contents(answer: Answer, expected: dict[str, Any]) -> None:
    for name in (
        "text",
        "reasoning_text",
        "tool_arguments",
        "finish_reason",
        "done_seen",
        "replacement_chars",
        "streamed",
    ):
        if name in expected:
            assert getattr(answer, name) == expected[name], name
    if "partial_text" in expected:
        assert answer.text == expected["partial_text"]
    usage = answer.usage
    if "output_tokens" in expected:
        assert (usage and usage.completion_tokens) == expected["output_tokens"]
    if "prompt_tokens" in expected:
        assert usage is not None
        assert usage.prompt_tokens == expected["prompt_tokens"]
    if expected.get("tokens_source") == TokensFrom.USAGE:
        assert usage is not None
