"""Streams as servers send them, put together for tests, and what an answer made of them holds."""

import json
from collections.abc import Iterable
from typing import Any

from tokenswarm.cautions import cautions
from tokenswarm.chat_stream import Answer
from tokenswarm.record import Caution

MS = 1_000_000  # ns


def read(pieces: Iterable[bytes | str], content_type: str | None = None, encoding: str | None = None) -> Answer:
    """Mark n for the n-th piece, counted from 1."""
    answer = Answer(content_type, encoding)
    for mark, piece in enumerate(pieces, 1):
        answer.feed(piece.encode() if isinstance(piece, str) else piece, mark)
    answer.close()
    return answer


def event(value: Any, name: str | None = None) -> str:
    data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return (f"event: {name}\n" if name else "") + f"data: {data}\n\n"


def chunk(delta: Any, finish: Any = None, index: int = 0, **more: Any) -> str:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return event({"id": "c-1", "object": "chat.completion.chunk", "choices": [choice], **more})


def words(*texts: str) -> list[str]:
    return [chunk({"content": text}) for text in texts]


STOP, DONE = chunk({}, "stop"), event("[DONE]")


def seen(answer: Answer) -> dict[str, Any]:
    """Everything of an answer but its marks."""
    names = (
        *(
            "chunk_texts",
            "running_tokens",
            "text",
            "reasoning_text",
            "tool_arguments",
            "refusal",
            "finish_reason",
            "usage",
        ),
        *(
            "done_seen",
            "error",
            "malformed_events",
            "comments",
            "replacement_chars",
            "streamed",
            "is_html",
            "body_head",
        ),
        *("chat_chunks", "other_events", "cumulative", "output_bytes", "chunk_tokens", "unreadable"),
    )
    return {**{name: getattr(answer, name) for name in names}, "chunks": len(answer.chunk_marks)}


def warned(answer: Answer, sent_mark: int = 0, **asked: Any) -> tuple[Caution, ...]:
    known = {"max_tokens": None, "ignore_eos": False, "expected_prompt_tokens": None, "prompt_words": None}
    return cautions(answer, sent_mark=sent_mark, **{**known, **asked})


def timed(marks: list[int], **usage: Any) -> Answer:
    """One output chunk at each of `marks` (ns)."""
    answer = Answer()
    for number, mark in enumerate(marks):
        answer.feed(words(f"w{number} ")[0].encode(), mark)
    told = {"prompt_tokens": 10, "completion_tokens": len(marks), **usage}
    answer.feed((chunk({}, "stop", usage=told) + DONE).encode(), marks[-1])
    answer.close()
    return answer
