"""Who failed, and how: the one classifier. What a server says when it fails, in any dialect, becomes one class.

`classify` decides from the way the transport ended, the status and the answer. The words that count are those of the
error object or of a failed answer's body, never generated text. What the body says wins over the code: gateways rewrite
codes.
"""

import dataclasses
import email.utils
import enum
import html
import math
import re
from collections.abc import Mapping

from tokenswarm.api_error import WORDS_LIMIT, ApiError, unsupported_param
from tokenswarm.chat_stream import Answer
from tokenswarm.error_rules import BODY_CODE, BODY_RULES, GATEWAY_RULES, PROXIES, STATUS, match
from tokenswarm.record import ErrorClass, Outcome, one_line

__all__ = ["End", "Verdict", "classify", "page_words", "retry_after_s", "unsupported_param"]


class End(enum.StrEnum):
    """How the transport of one request ended, as the client saw it."""

    COMPLETE = "complete"  # the HTTP message is whole
    RESET = "reset"  # closed or reset before that
    CONNECT_FAILED = "connect_failed"
    TIMEOUT_FIRST_TOKEN = "timeout_first_token"
    TIMEOUT_STALL = "timeout_stall"
    TIMEOUT_TOTAL = "timeout_total"
    CANCELLED = "cancelled"
    NOT_HTTP = "not_http"  # bytes that are no HTTP
    TOO_LARGE = "too_large"  # a line or body beyond the limit


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    error_class: ErrorClass | None = None
    detail: str | None = None  # one line


_OK = Verdict(Outcome.OK)

_BROKEN: dict[End, ErrorClass] = {
    End.RESET: ErrorClass.CONNECTION_RESET,
    End.CONNECT_FAILED: ErrorClass.CONNECT_FAILED,
    End.TIMEOUT_FIRST_TOKEN: ErrorClass.TIMEOUT_FIRST_TOKEN,
    End.TIMEOUT_STALL: ErrorClass.TIMEOUT_STALL,
    End.TIMEOUT_TOTAL: ErrorClass.TIMEOUT_TOTAL,
    End.NOT_HTTP: ErrorClass.MALFORMED_STREAM,
    End.TOO_LARGE: ErrorClass.MALFORMED_STREAM,
}


def classify(end: End, http_status: int | None, answer: Answer | None, detail: str | None) -> Verdict:
    """The outcome of one request. `detail`: the transport's words, where it failed. First rule that holds decides.

    Raises ValueError for what no rule names: that is our bug, not the server's failure.
    """
    end = End(end)
    if end is End.CANCELLED:
        return Verdict(Outcome.CANCELLED, None, _line(detail))
    if end is End.CONNECT_FAILED:
        return _failed(ErrorClass.CONNECT_FAILED, detail)
    if http_status is None:
        if end is End.COMPLETE:
            raise ValueError("a complete answer without a status")
        return _failed(_BROKEN[end], detail)
    if not 200 <= http_status < 300:
        return _failed(_of_status(http_status, answer), _said(answer) or detail or f"HTTP status {http_status}")
    if answer is None:
        if end is End.COMPLETE:
            raise ValueError("a complete answer with status 200 was not parsed")
        return _failed(_BROKEN[end], detail)
    return _of_answer(end, answer, detail)


def _of_answer(end: End, answer: Answer, detail: str | None) -> Verdict:
    """The verdict on an answer whose status was good."""
    if answer.error is not None:
        told = match(BODY_RULES, answer.error.words) or _of_code(answer.error)
        return _failed(told or ErrorClass.STREAM_ERROR, _said(answer))
    if answer.aborted:
        return _failed(ErrorClass.ABORTED, f"finish_reason {answer.finish_reason}")
    whole = answer.done_seen and answer.has_output  # after [DONE] nothing can be lost any more
    if end is not End.COMPLETE and not whole:
        return _failed(_BROKEN[end], detail)
    if answer.unreadable is not None:
        return _failed(ErrorClass.MALFORMED_STREAM, answer.unreadable)
    if answer.has_output:
        if not (answer.finished or answer.done_seen) and answer.streamed:
            return _failed(ErrorClass.STREAM_TRUNCATED, "the stream ended without finish_reason and without [DONE]")
        return _OK
    if answer.chat_chunks == 0 and (answer.body_head or answer.malformed_events or answer.other_events):
        gateway = None if answer.is_html else match(GATEWAY_RULES, answer.body_head[:WORDS_LIMIT].lower())
        return _failed(
            gateway or ErrorClass.MALFORMED_STREAM, _said(answer) or "no event of the stream is a chat chunk"
        )
    if answer.chat_chunks and answer.finish_reason is None and not answer.done_seen and answer.streamed:
        return _failed(ErrorClass.STREAM_TRUNCATED, "the stream ended without output, finish_reason and [DONE]")
    return Verdict(Outcome.EMPTY, ErrorClass.EMPTY_RESPONSE, "HTTP status 200, but no output at all")


def _of_status(status: int, answer: Answer | None) -> ErrorClass:
    """The class of an answer with an error status. A proxy's page is judged by its code, anything else by its words."""
    by_status = STATUS.get(status, ErrorClass.HTTP_ERROR)
    words = _words(answer)
    if answer is not None and answer.is_html:
        if by_status in (ErrorClass.GATEWAY_ERROR, ErrorClass.GATEWAY_TIMEOUT):
            return by_status
        found = match(GATEWAY_RULES, words) or match(BODY_RULES, words)
        own_page = status == 403 or (status >= 500 and status != 503 and PROXIES.search(answer.body_head.lower()))
        return found or (ErrorClass.GATEWAY_ERROR if own_page else by_status)
    overflow = "reset reason: overflow" in words  # a circuit breaker: too much load, not a broken backend
    gateway = None if overflow else match(GATEWAY_RULES, words)
    from_code = _of_code(answer.error) if answer is not None and answer.error is not None else None
    return gateway or match(BODY_RULES, words) or from_code or by_status


def _of_code(error: ApiError) -> ErrorClass | None:
    return BODY_CODE.get(error.code or "") or BODY_CODE.get(error.type or "")


def _words(answer: Answer | None) -> str:
    if answer is None:
        return ""
    if answer.error is not None:
        return answer.error.words
    text = page_words(answer.body_head) if answer.is_html else answer.body_head
    return text[:WORDS_LIMIT].lower()


def _said(answer: Answer | None) -> str | None:
    """The server's own words, for a person."""
    if answer is None:
        return None
    if answer.error is not None:
        return answer.error.message or answer.error.raw or None
    body = answer.body_head.strip()
    return (page_words(body) if answer.is_html else body) or None


def page_words(page: str) -> str:
    """What a person would read on an HTML page: its title, then its text. Nothing in it is interpreted."""
    page = page[:65536]
    title = re.search(r"<title[^>]*>(.*?)</title", page, re.I | re.S)
    text = re.sub(r"<!--.*?(-->|$)|<(script|style|title)\b.*?(</\2\s*>|$)|<[^>]*(>|$)", " ", page, flags=re.I | re.S)
    return " ".join(html.unescape(f"{title[1] if title else ''} {text}").split())


def _line(text: str | None) -> str | None:
    return one_line(text) if text else None


def _failed(error_class: ErrorClass, detail: str | None) -> Verdict:
    return Verdict(Outcome.FAILED, error_class, _line(detail))


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Seconds that the server asks us to wait; `now_s` (epoch seconds) turns a date into a distance. None: not told."""
    told = {name.lower(): value.strip() for name, value in headers.items()}
    for name, unit_s in (("retry-after-ms", 1e-3), ("x-ms-retry-after-ms", 1e-3), ("retry-after", 1.0)):
        if name in told:
            try:
                wait_s = float(told[name]) * unit_s
            except ValueError:
                continue
            if math.isfinite(wait_s) and wait_s >= 0:
                return wait_s
    try:
        at = email.utils.parsedate_to_datetime(told["retry-after"])
    except (KeyError, ValueError, TypeError):
        return None
    return max(0.0, at.timestamp() - now_s)
