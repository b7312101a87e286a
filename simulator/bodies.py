"""The bytes of answers: chunks, whole completions, usage. What stays the same is encoded once a request."""

import time

import msgspec

from simulator.answers import json_text

DONE = b"data: [DONE]\n\n"


def usage(prompt_tokens: int, completion_tokens: int, cached_tokens: int | None) -> dict[str, object]:
    """The usage object; `cached_tokens` None where no prefix cache is on."""
    counts: dict[str, object] = {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }
    if cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": cached_tokens}
    return counts


def event(data: object) -> bytes:
    """One server-sent event with `data` as JSON."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


class ChunkEncoder:
    """The events of one streamed answer. With `running_usage` every chunk tells the usage so far."""

    def __init__(self, request_id: str, model: str, prompt_tokens: int, running_usage: bool) -> None:
        self._head = {
            "id": request_id,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }
        self._prompt_tokens = prompt_tokens
        self._running_usage = running_usage
        encoded = msgspec.json.encode(self._head)[:-1]
        self._before_text = b"data: " + encoded + b',"choices":[{"index":0,"delta":{"content":'
        self._before_role = b"data: " + encoded + b',"choices":[{"index":0,"delta":{"role":"assistant","content":""'

    def role(self) -> bytes:
        """The chunk that opens an answer: the role, and empty content."""
        return b"".join([self._before_role, b'},"logprobs":null,"finish_reason":null}]', self._tail(0)])

    def text(self, texts: list[str], tokens_so_far: int) -> bytes:
        """A chunk with the joined `texts`."""
        ending = b'},"logprobs":null,"finish_reason":null}]'
        return b"".join([self._before_text, json_text(texts), ending, self._tail(tokens_so_far)])

    def finish(self, texts: list[str], tokens_so_far: int, reason: str) -> bytes:
        """The last chunk: as vLLM does, the finish_reason comes with the last text."""
        ending = b'},"logprobs":null,"finish_reason":"' + reason.encode() + b'","stop_reason":null}]'
        return b"".join([self._before_text, json_text(texts), ending, self._tail(tokens_so_far)])

    def _tail(self, tokens_so_far: int) -> bytes:
        if not self._running_usage:
            return b"}\n\n"
        total = self._prompt_tokens + tokens_so_far
        return b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}\n\n' % (
            self._prompt_tokens,
            total,
            tokens_so_far,
        )

    def usage(self, counts: dict[str, object]) -> bytes:
        """The chunk without choices that ends a stream when usage was asked for."""
        return event({**self._head, "choices": [], "usage": counts})


def completion(request_id: str, model: str, text: str, reason: str, counts: dict[str, object] | None) -> bytes:
    """The body of an answer that is not streamed."""
    message: dict[str, object] = {"role": "assistant", "content": text, "refusal": None, "tool_calls": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason, "stop_reason": None}
    body: dict[str, object] = {
        "id": request_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
    }
    if counts is not None:
        body["usage"] = counts
    return msgspec.json.encode(body)
