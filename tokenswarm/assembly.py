"""From what was asked, what went over the wire and what the answer says to the one row that is kept."""

from tokenswarm.asked import Asked
from tokenswarm.cautions import cautions
from tokenswarm.chat_stream import Answer
from tokenswarm.errors import End, classify
from tokenswarm.exchange import Exchange
from tokenswarm.long_work import Breathe, hold_breath, parts
from tokenswarm.record import Outcome, RequestRecord, Stamp, TokensFrom


def assemble(
    asked: Asked, exchange: Exchange, answer: Answer | None, end: End, breathe: Breathe = hold_breath
) -> RequestRecord:
    """The record of a request that has ended; `answer` is None where no header of one came."""
    sent_ns = exchange.sent_ns

    def since_sent_us(at_ns: int | None) -> int | None:
        return None if at_ns is None else (at_ns - sent_ns) // 1000

    verdict = classify(end, exchange.status, answer, exchange.detail)
    seen: dict[str, object] = {}
    if answer is not None:
        usage, marks, tokens = answer.usage, answer.marks, answer.chunk_tokens
        seen = {
            "chunk_us": tuple([(mark - sent_ns) // 1000 for part in parts(marks.tolist(), breathe) for mark in part]),
            "chunk_tokens": None if tokens is None else tuple(tokens),
            "first_answer_us": since_sent_us(answer.first_answer_mark),
            "finish_reason": answer.finish_reason,
            "coalesced": answer.measure_gaps(breathe).count(0),
            "stamp": Stamp.USER if exchange.user_stamped else Stamp.KERNEL,
            "lag_max_us": exchange.lag_max_ns // 1000,
        }
        if usage is not None:
            seen |= {
                "prompt_tokens": usage.prompt_tokens,
                "output_tokens": usage.completion_tokens,
                "reasoning_tokens": usage.reasoning_tokens,
                "cached_tokens": usage.cached_tokens,
            }
        if seen.get("output_tokens") is not None:
            seen["tokens_from"] = TokensFrom.USAGE
        elif marks:
            seen["tokens_from"] = TokensFrom.CHUNKS
        if verdict.outcome in (Outcome.OK, Outcome.EMPTY):
            seen["warnings"] = cautions(
                answer,
                sent_mark=sent_ns,
                max_tokens=asked.max_tokens,
                ignore_eos=asked.ignore_eos,
                expected_prompt_tokens=asked.expected_prompt_tokens,
                prompt_words=asked.prompt_words,
            )
    return RequestRecord(
        request_id=asked.request_id,
        worker=asked.worker,
        user=asked.user,
        task=asked.task,
        conversation=asked.conversation,
        turn=asked.turn,
        prompt_id=asked.prompt_id,
        scheduled_at=asked.scheduled_at,
        sent_at=sent_ns / 1e9,
        connect_us=exchange.connect_us,
        tls_us=exchange.tls_us,
        reconnected=exchange.reconnected,
        headers_us=since_sent_us(exchange.headers_ns),
        ended_us=since_sent_us(exchange.ended_ns),
        outcome=verdict.outcome,
        error_class=verdict.error_class,
        http_status=exchange.status,
        detail=verdict.detail,
        max_tokens=asked.max_tokens,
        **seen,  # type: ignore[arg-type]
    )
