"""Streams made of what servers really send, mixed at random: however the network cuts them, they mean the same.

python -m tests.wire.test_wire_fuzz 20000        tries as many examples as are asked for
"""

import gzip
import itertools
import json
import sys
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.streamed import DONE, STOP, chunk, event, seen, warned
from tokenswarm.chat_stream import Answer
from tokenswarm.errors import End, classify
from tokenswarm.record import Outcome

TEXTS = st.sampled_from(
    ["a", " b", "déjà", "🎈", '"', "\\", "\n", "", " ", "data: x", "[DONE]", "\x00", "\ufeff", "\u2028"]
)
COUNT = st.sampled_from([None, 0, 1, 2, 3, 7, "4", 5.0, -1, 10**30])
USAGE = st.none() | st.fixed_dictionaries(
    {"prompt_tokens": COUNT, "completion_tokens": COUNT},
    optional={
        "total_tokens": COUNT,
        "completion_tokens_details": st.none() | st.fixed_dictionaries({"reasoning_tokens": COUNT}),
        "prompt_tokens_details": st.none() | st.fixed_dictionaries({"cached_tokens": COUNT}),
    },
)
ERROR = st.sampled_from([None, {}, "", "boom", {"message": "boom", "code": 503}, {"message": "", "code": 0}, ["boom"]])
DELTA = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": st.none() | TEXTS | st.lists(st.fixed_dictionaries({"text": TEXTS}), max_size=2),
        "reasoning_content": st.none() | TEXTS,
        "reasoning": TEXTS,
        "refusal": TEXTS,
        "tool_calls": st.none()
        | st.lists(
            st.fixed_dictionaries({}, optional={"index": COUNT, "id": TEXTS, "function": st.just({"arguments": "{"})}),
            max_size=2,
        ),
    },
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 0, 0, 1, None, "1"]),
        "delta": st.none() | DELTA,
        "message": st.none() | DELTA,
        "text": TEXTS,
        "finish_reason": st.sampled_from([None, "", "stop", "length", "abort", "null", {"type": "stop"}]),
        "usage": USAGE,
        "error": ERROR,
    },
)
CHUNK = st.fixed_dictionaries(
    {"choices": st.none() | st.lists(CHOICE | st.none(), max_size=2)},
    optional={
        "usage": USAGE,
        "error": ERROR,
        "x_groq": st.fixed_dictionaries({}, optional={"usage": USAGE, "error": ERROR}),
    },
)
NAME = st.sampled_from([None, None, "message", "error", "ping", "throttlingException"])
USUAL = st.builds(lambda text, index: chunk({"content": text}, index=index), TEXTS, st.sampled_from([0, 0, 0, 1]))
BETWEEN = st.sampled_from(
    [
        *(
            ": ping\n\n",
            "\n",
            "retry: 3000\n",
            "id: 7\n",
            "event: delta\n",
            "data\n",
            "data:\n\n",
            "unknown: x\n",
            "junk\n",
        ),
        *(
            "\ufeff",
            "error: boom\n\n",
            "data: {broken\n\n",
            "data: [1]\n\n",
            "data: null\n\n",
            "\x00\n",
            "data: NaN\n\n",
        ),
        *('{"error": {"message": "boom"}}\n', "<html><title>502</title></html>\n", 'data: {"choices":\ndata: []}\n\n'),
        *('data: {"choices": []}data: {"choices": []}\n\n', "data:data: [DONE]\n\n"),
    ]
)
PARTS = st.one_of(USUAL, USUAL, st.builds(event, CHUNK, NAME), BETWEEN, st.sampled_from([STOP, DONE]))
STREAM = st.lists(PARTS, max_size=12)
CUTS = st.lists(st.integers(0, 1500), max_size=8)


def read(pieces: list[bytes], encoding: str | None = None) -> Answer:
    answer = Answer(None, encoding)
    answer.feed_all(pieces, list(range(len(pieces))))
    answer.close()
    return answer


def judged(answer: Answer) -> dict[str, Any]:
    """All that reaches a row, but for the times."""
    verdict = classify(End.COMPLETE, 200, answer, None)
    assert answer.chunk_marks == sorted(answer.chunk_marks)
    assert len(answer.chunk_marks) == len(answer.chunk_texts) == len(answer.running_tokens)
    assert (verdict.outcome is Outcome.OK) <= answer.has_output
    json.dumps([answer.texts, answer.chunk_texts, answer.finish_reason, verdict.detail]).encode()
    warned(answer)  # some of it depends on times: it need not be the same
    return {**seen(answer), "verdict": verdict, "finished": answer.finished}


MIXTURE = (STREAM, CUTS, st.sampled_from(["\n", "\r\n", "\r"]), st.integers(0, 40))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(*MIXTURE)
def test_any_cut_of_any_mixture_means_the_same(parts: list[str], cuts: list[int], newline: str, lost: int) -> None:
    means_the_same(parts, cuts, newline, lost)


def means_the_same(parts: list[str], cuts: list[int], newline: str, lost: int) -> None:
    """`lost`: above 30, so many bytes are missing at the end."""
    texts = [part.replace("\n", newline).encode() for part in parts]
    data = b"".join(texts)
    data = data[: len(data) - lost] if lost > 30 else data
    whole = judged(read([data]))
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    assert judged(read([data[a:b] for a, b in itertools.pairwise(edges)])) == whole
    assert judged(read([data[at : at + 1] for at in range(len(data))])) == whole
    if data == b"".join(texts):
        assert judged(read(texts)) == whole  # each event in one read, as most servers send them: patterns are followed
    squeezed = gzip.compress(data, mtime=0)
    half = len(squeezed) // 2
    assert judged(read([squeezed[:half], squeezed[half:]], "gzip")) == whole


if __name__ == "__main__":
    settings(max_examples=int(sys.argv[1]), deadline=None)(given(*MIXTURE)(means_the_same))()
