"""THE definition of each metric: what it means, its unit, which direction is better, and its formula.

The live UI, the summary, the reports, the gate and the docs all look here; no other file spells a definition.
Names are the field's (vLLM's benchmark, SGLang, inference-perf and MLPerf agree on them). Values are in base units:
seconds, tokens, requests. A value that does not exist is `None`, never 0.
"""

import dataclasses
import enum
import itertools
from collections.abc import Sequence
from typing import Any

from tokenswarm.record import Caution, Outcome, RequestRecord

DEFINITIONS_VERSION = 1  # raise it when a definition changes: runs under different versions are not compared


class Better(enum.StrEnum):
    LOWER = "lower"
    HIGHER = "higher"


class Kind(enum.StrEnum):
    """What one sample of the metric is taken from."""

    REQUEST = "request"
    CHUNK = "chunk"
    STEP = "step"


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """A metric's name (as in columns, options and budgets), its label for people, and what it means."""

    name: str
    label: str
    unit: str  # "s", "tokens/s", "1/s", "ratio", "requests"
    better: Better | None
    kind: Kind
    text: str


_ALL = [
    Metric(
        "ttft",
        "TTFT",
        "s",
        Better.LOWER,
        Kind.REQUEST,
        "Time to first token: arrival of the first chunk with generated output of any kind (content, reasoning, tool "
        "call, refusal) minus the sending of the request. What a user waits before anything moves. In an open loop all "
        "waiting counts from when the request was scheduled.",
    ),
    Metric(
        "ttfo",
        "TTFO",
        "s",
        Better.LOWER,
        Kind.REQUEST,
        "Time to first output: arrival of the first chunk of the visible answer minus the sending of the request. "
        "Differs from TTFT where a model reasons first.",
    ),
    Metric(
        "itl",
        "ITL",
        "s",
        Better.LOWER,
        Kind.CHUNK,
        "Inter-token latency: gaps between neighbouring output chunks of a request, pooled; one sample per chunk. "
        "Read it with tokens per chunk: where that is not 1, the per-token value stands beside it.",
    ),
    Metric(
        "itl_per_token",
        "ITL per token",
        "s",
        Better.LOWER,
        Kind.CHUNK,
        "The gap before a chunk divided by the tokens in the chunk, one sample per token; only where the server tells "
        "tokens per chunk (running usage).",
    ),
    Metric(
        "tpot",
        "TPOT",
        "s",
        Better.LOWER,
        Kind.REQUEST,
        "Time per output token of one request: (last minus first output chunk) / (output tokens - 1). Does not exist "
        "below two tokens, nor where the server counts tokens that it never streamed.",
    ),
    Metric(
        "e2e",
        "E2E",
        "s",
        Better.LOWER,
        Kind.REQUEST,
        "End-to-end latency: arrival of the last output chunk minus the sending of the request; neither the usage "
        "chunk nor [DONE] extends it.",
    ),
    Metric(
        "tokens_per_chunk",
        "Tokens per chunk",
        "tokens",
        None,
        Kind.REQUEST,
        "Output tokens divided by output chunks. 1 on most servers; more with speculative decoding or a stream "
        "interval.",
    ),
    Metric(
        "user_tokens_per_s",
        "Tokens/s per user",
        "tokens/s",
        Better.HIGHER,
        Kind.REQUEST,
        "1 / TPOT: how fast the text flows for one user.",
    ),
    Metric(
        "output_tokens_per_s",
        "Output tokens/s",
        "tokens/s",
        Better.HIGHER,
        Kind.STEP,
        "Output tokens that arrived inside the window, divided by its length; the whole system. What the operator "
        "pays for.",
    ),
    Metric(
        "total_tokens_per_s",
        "Total tokens/s",
        "tokens/s",
        Better.HIGHER,
        Kind.STEP,
        "Output tokens/s plus the prompt tokens of requests whose first token arrived inside the window.",
    ),
    Metric(
        "requests_per_s",
        "Requests/s",
        "1/s",
        Better.HIGHER,
        Kind.STEP,
        "Requests that completed inside the window, divided by its length.",
    ),
    Metric(
        "output_tokens_per_s_wall",
        "Output tokens/s, wall",
        "tokens/s",
        None,
        Kind.STEP,
        "Output tokens of requests that completed in the whole step (ramp, warm-up and drain included), divided by its "
        "wall time. What tools without a steady window report; it falls short of what the server can do.",
    ),
    Metric(
        "requests_per_s_wall",
        "Requests/s, wall",
        "1/s",
        None,
        Kind.STEP,
        "Requests that completed in the whole step (ramp, warm-up and drain included), divided by its wall time.",
    ),
    Metric(
        "goodput_per_s",
        "Goodput",
        "1/s",
        Better.HIGHER,
        Kind.STEP,
        "Requests that completed inside the window and met every SLO, divided by its length.",
    ),
    Metric(
        "slo_attainment",
        "SLO attainment",
        "ratio",
        Better.HIGHER,
        Kind.STEP,
        "Requests that met every SLO / all requests sent in the window.",
    ),
    Metric(
        "error_ratio",
        "Error ratio",
        "ratio",
        Better.LOWER,
        Kind.STEP,
        "Requests that were not ok / all requests; those that we cancelled ourselves are in neither.",
    ),
    Metric(
        "truncated_ratio",
        "Truncated ratio",
        "ratio",
        Better.LOWER,
        Kind.STEP,
        "Answers that ended at the token limit (finish_reason = length) / ok requests.",
    ),
    Metric(
        "observed_concurrency",
        "Observed concurrency",
        "requests",
        None,
        Kind.STEP,
        "Time-average of the requests in flight inside the window.",
    ),
]

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}


def ttft_us(chunk_us: Sequence[int]) -> int | None:
    """`ttft` in µs, from the arrivals of the output chunks."""
    return chunk_us[0] if len(chunk_us) else None


def e2e_us(chunk_us: Sequence[int], not_streamed: bool, ended_us: int | None) -> int | None:
    """`e2e` in µs. A `not_streamed` answer has no chunks: there, and only there, its end stands for them."""
    if not_streamed:
        return ended_us
    return chunk_us[-1] if len(chunk_us) else None


def has_tpot(chunks: Any, output_tokens: Any, all_streamed: Any) -> Any:
    """Whether `tpot` exists: not below two tokens, nor where tokens were counted but not streamed.

    Numbers and truth values of one request, or arrays of those of many.
    """
    return (chunks > 0) & (output_tokens >= 2) & all_streamed


def tpot_us(first_us: Any, last_us: Any, output_tokens: Any) -> Any:
    """`tpot` in µs from the first and the last output chunk; where `has_tpot`. Numbers, or arrays of them."""
    return (last_us - first_us) / (output_tokens - 1)


def itl_us(chunk_us: Sequence[int]) -> list[int]:
    """`itl` samples of one request in µs: one fewer than its output chunks."""
    return [later - earlier for earlier, later in itertools.pairwise(chunk_us)]


def itl_per_token_us(chunk_us: Sequence[int], chunk_tokens: Sequence[int] | None) -> list[float]:
    """`itl_per_token` samples in µs: the gap before a chunk, shared out over its tokens."""
    if chunk_tokens is None:
        return []
    gaps = zip(itl_us(chunk_us), chunk_tokens[1:], strict=True)
    return [gap / tokens for gap, tokens in gaps for _ in range(tokens)]


def _waited_s(us: float | None, slip_s: float) -> float | None:
    """Seconds from when the request should have been sent; in a closed loop that is when it was."""
    return None if us is None else us / 1e6 + slip_s


def derive(record: RequestRecord) -> dict[str, float | None]:
    """The per-request metrics of `record`, in seconds, tokens and tokens/s. Failed requests have none: all are None.

    (A failed request keeps its chunks in the record; they are evidence, not latency.)
    """
    names = ("ttft", "ttfo", "tpot", "e2e", "tokens_per_chunk", "user_tokens_per_s")
    if record.outcome is not Outcome.OK:
        return dict.fromkeys(names)
    chunks, tokens = record.chunk_us, record.output_tokens
    all_streamed = Caution.HIDDEN_REASONING not in record.warnings
    tpot = None
    if tokens is not None and has_tpot(len(chunks), tokens, all_streamed):
        tpot = tpot_us(chunks[0], chunks[-1], tokens) / 1e6
    slip_s = 0.0 if record.scheduled_at is None else record.sent_at - record.scheduled_at
    return {
        "ttft": _waited_s(ttft_us(chunks), slip_s),
        "ttfo": _waited_s(record.first_answer_us, slip_s),
        "tpot": tpot,
        "e2e": _waited_s(e2e_us(chunks, Caution.NOT_STREAMED in record.warnings, record.ended_us), slip_s),
        "tokens_per_chunk": tokens / len(chunks) if tokens is not None and chunks else None,
        "user_tokens_per_s": 1 / tpot if tpot else None,
    }
