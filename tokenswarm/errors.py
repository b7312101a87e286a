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
from typing import TYPE_CHECKING, Any

from tokenswarm.record import ErrorClass, Outcome, one_line

if TYPE_CHECKING:
    from tokenswarm.chat_stream import Answer

WORDS_LIMIT = 1000  # characters of a message that are searched: some servers echo the whole prompt behind their words


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
class ApiError:
    """What a server's error object says. `code` is text even where it was sent as a number."""

    message: str | None = None
    type: str | None = None
    code: str | None = None
    param: str | None = None
    raw: str = ""  # the object as it came, cut

    @property
    def words(self) -> str:
        """Type, code and message in lower case: what the rules are tried on."""
        return " ".join(filter(None, (self.type, self.code, (self.message or self.raw)[:WORDS_LIMIT]))).lower()


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    outcome: Outcome
    error_class: ErrorClass | None = None
    detail: str | None = None  # one line


# What a body says → class. The first pattern that is found wins, so the order matters: a context error may name a
# parameter, a parameter error may name the model, a missing model is often "or you do not have access".
_BODY_RULES: tuple[tuple[ErrorClass, re.Pattern[str]], ...] = tuple(
    (error_class, re.compile("|".join(patterns)))
    for error_class, patterns in (
        (
            ErrorClass.RATE_LIMITED,  # the exact codes first: "request too large … tokens per minute" is no context error
            (
                r"rate_limit_(exceeded|error)|ratelimiterror|insufficient_quota|resource_exhausted|tokens? per (min|day)",
            ),
        ),
        (
            ErrorClass.CONTEXT_LENGTH,
            (
                r"context.?(length|window|size|limit)",
                r"exceed_context|max(imum)?[ _]model[ _]len|maximum (prompt|sequence) length|maximum number of tokens",
                r"(prompt|input|conversation|message)s?( is| are|\b.{0,60}?\bis)? too (long|large)\b",
                r"reduce the length of the (messages|prompt|input)|string_above_max_length",
                r"(prompt|input) (length|tokens?|token count)\b.{0,60}\b(exceed|longer|greater|larger)",
                r"inputs`? (tokens \+|must have less than)|max_(prompt|input)_tokens_exceeded",
                r"max_tokens must be at least 1, got -|longer than the (model|maximum)",
            ),
        ),
        (
            ErrorClass.UNSUPPORTED_PARAMETER,
            (
                r"extra_forbidden|value_error\.extra|unsupported_(parameter|value)|unknown_parameter|unsupportedparams",
                r"extra (fields?|inputs?) (are |is )?not (permitted|allowed)",
                r"field not allowed|additional propert(y|ies)\b.{0,80}\bnot allowed",
                r"(unknown|unexpected|unrecogni[sz]ed|unsupported|invalid|extra) (request |json |body )?"
                r"(param(eter)?|field|key(word)?|argument|arg|propert(y|ies)|option|name)\w*(\(s\))?( argument)?s?\b",
                r"(param(eter)?|field|argument|propert(y|ies)|option)s?\b.{0,80}"
                r"\b(not (currently )?(supported|allowed|permitted|recogni[sz]ed)|unsupported|unrecogni[sz]ed)",
                r"does(n't| not) support (the )?(param|tool|function|stream|response_format|logprob|system|reasoning)",
                r"\b(stream_options|max_(completion_)?tokens|ignore_eos|temperature|tools?|logprobs|n|seed)['\"`]? "
                r"(is|are) (only|not) (supported|allowed)",
                r"['\"`][\w.\[\]]+['\"`] (is|are) (not supported|unsupported|not allowed|not permitted)",
            ),
        ),
        (
            ErrorClass.MODEL_NOT_FOUND,
            (
                r"model_?not_?found|deployment_?not_?found|model_decommissioned|no such model|not a valid model",
                r"(unknown|invalid|unsupported|no) model( name| id|:| ['\"`]|$)|server is pinned to",
                r"\bmodels?\b.{0,160}?\b(does(n't| not) exist|not exist|not found|cannot be found|decommissioned"
                r"|is not (available|served|loaded|found|supported|a valid|registered))",
                r"deployment\b.{0,80}\bdoes not exist|no endpoints found for|not_found_error model:",
            ),
        ),
        (
            ErrorClass.OVERLOADED,
            (
                r"overload|server_busy|service_?unavailable(_?error)?|slow_down|unavailable_error|capacity_exceeded",
                r"service (is )?(temporarily |currently )?unavailable|(too|currently|is) busy",
                r"at (full |max(imum)? )?capacity|out of capacity|queue (is )?(currently )?full|queue limit",
                r"no (free |available )?slots?( available)?\b",
                r"no (healthy|available|ready) (upstream|backend|deployment|worker|server|instance|endpoint|replica)",
                r"no (available|ready) channel",
                r"reset reason: overflow|loading model|model is (still )?loading",
            ),
        ),
        (
            ErrorClass.RATE_LIMITED,
            (
                r"rate.?limit|too.many.(concurrent.)?requests|requests? per (second|min|hour|day)|throttl",
                r"(exceed|over|insufficient)\w*\b.{0,40}\bquota|quota.?(exceed|exhaust)|concurren(t|cy)\b.{0,30}\blimit",
                r"max parallel request",
            ),
        ),
        (
            ErrorClass.AUTH,
            (
                r"api.?key\b.{0,40}\b(invalid|incorrect|missing|required|expired|not|valid|revoked|provide)",
                r"(invalid|incorrect|missing|no|wrong|expired|provide an|malformed)\b.{0,15}\b"
                r"(api.?key|token provided|credentials|access token|bearer)|invalid_api_key|no auth",
                r"\bunauthori[sz]ed|authentication|not authenticated|permission.?(denied|error)",
                r"invalid_token|access_denied",
            ),
        ),
    )
)

# A proxy's own words. They count where the answer is a failed one, not in an error object of a stream that has begun.
_GATEWAY_RULES: tuple[tuple[ErrorClass, re.Pattern[str]], ...] = (
    (
        ErrorClass.GATEWAY_TIMEOUT,
        re.compile(
            r"upstream (request |response |read |idle )?time(d |-)?out|gateway.?time-?d?.?out|stream timeout"
            r"|a timeout occurred|litellm\.timeout|apitimeouterror|backend.{0,20}timed? ?out"
        ),
    ),
    (
        ErrorClass.GATEWAY_ERROR,
        re.compile(
            r"upstream (connect|protocol|prematurely|reset|connection|server)|disconnect/reset before headers"
            r"|bad gateway|reset reason|apiconnectionerror|proxy error|web server is (down|returning)"
            r"|error (reading|proxying|from) (from )?(upstream|remote|backend)|invalid response from"
            r"|origin is unreachable|no route to|cannot connect to host"
        ),
    ),
)

_STATUS: dict[int, ErrorClass] = {
    401: ErrorClass.AUTH,
    403: ErrorClass.AUTH,
    429: ErrorClass.RATE_LIMITED,
    502: ErrorClass.GATEWAY_ERROR,
    503: ErrorClass.OVERLOADED,
    504: ErrorClass.GATEWAY_TIMEOUT,
    522: ErrorClass.GATEWAY_TIMEOUT,  # Cloudflare: the connection to the origin timed out
    524: ErrorClass.GATEWAY_TIMEOUT,  # Cloudflare: the origin did not answer in time
    529: ErrorClass.OVERLOADED,
    598: ErrorClass.GATEWAY_TIMEOUT,  # network read timeout, as some proxies call it
    **dict.fromkeys((520, 521, 523, 525, 526, 527, 530), ErrorClass.GATEWAY_ERROR),  # Cloudflare's own
}
_BODY_CODE = {
    "401": ErrorClass.AUTH,
    "429": ErrorClass.RATE_LIMITED,
    "503": ErrorClass.OVERLOADED,
    "529": ErrorClass.OVERLOADED,
}
_PROXIES = re.compile(
    r"nginx|openresty|cloudflare|envoy|haproxy|varnish|akamai|squid|traefik|istio|awselb|cloudfront|caddy"
)

_BROKEN: dict[End, ErrorClass] = {
    End.RESET: ErrorClass.CONNECTION_RESET,
    End.CONNECT_FAILED: ErrorClass.CONNECT_FAILED,
    End.TIMEOUT_FIRST_TOKEN: ErrorClass.TIMEOUT_FIRST_TOKEN,
    End.TIMEOUT_STALL: ErrorClass.TIMEOUT_STALL,
    End.TIMEOUT_TOTAL: ErrorClass.TIMEOUT_TOTAL,
    End.NOT_HTTP: ErrorClass.MALFORMED_STREAM,
    End.TOO_LARGE: ErrorClass.MALFORMED_STREAM,
}
_ABORT_REASONS = frozenset(
    {"abort", "aborted", "error", "cancelled", "canceled", "cancel", "timeout", "failed", "failure"}
)
_ABORT_REASONS |= {"insufficient_system_resource", "engine_error", "server_error", "internal_error", "network_error"}


def classify(end: End, http_status: int | None, answer: "Answer | None", detail: str | None) -> Verdict:
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


def _of_answer(end: End, answer: "Answer", detail: str | None) -> Verdict:
    """The verdict on an answer whose status was good."""
    said = _said(answer)
    if answer.error is not None:
        return _failed(
            _match(_BODY_RULES, answer.error.words) or _of_code(answer.error) or ErrorClass.STREAM_ERROR, said
        )
    if answer.aborted:
        return _failed(ErrorClass.ABORTED, f"finish_reason {answer.finish_reason}")
    whole = answer.done_seen and answer.has_output  # after [DONE] nothing can be lost any more
    if end is not End.COMPLETE and not whole:
        return _failed(_BROKEN[end], detail)
    if answer.unreadable is not None:
        return _failed(ErrorClass.MALFORMED_STREAM, answer.unreadable)
    if answer.has_output:
        if answer.finish_reason is None and not answer.done_seen and answer.streamed:
            return _failed(ErrorClass.STREAM_TRUNCATED, "the stream ended without finish_reason and without [DONE]")
        return Verdict(Outcome.OK)
    if answer.chat_chunks == 0 and (answer.body_head or answer.malformed_events or answer.other_events):
        gateway = None if answer.is_html else _match(_GATEWAY_RULES, answer.body_head[:WORDS_LIMIT].lower())
        return _failed(gateway or ErrorClass.MALFORMED_STREAM, said or "no event of the stream is a chat chunk")
    if answer.chat_chunks and answer.finish_reason is None and not answer.done_seen and answer.streamed:
        return _failed(ErrorClass.STREAM_TRUNCATED, "the stream ended without output, finish_reason and [DONE]")
    return Verdict(Outcome.EMPTY, ErrorClass.EMPTY_RESPONSE, "HTTP status 200, but no output at all")


def _of_status(status: int, answer: "Answer | None") -> ErrorClass:
    """The class of an answer with an error status. A proxy's page is judged by its code, anything else by its words."""
    by_status = _STATUS.get(status, ErrorClass.HTTP_ERROR)
    words = _words(answer)
    if answer is not None and answer.is_html:
        if by_status in (ErrorClass.GATEWAY_ERROR, ErrorClass.GATEWAY_TIMEOUT):
            return by_status
        found = _match(_GATEWAY_RULES, words) or _match(_BODY_RULES, words)
        own_page = status == 403 or (status >= 500 and status != 503 and _PROXIES.search(answer.body_head.lower()))
        return found or (ErrorClass.GATEWAY_ERROR if own_page else by_status)
    overflow = "reset reason: overflow" in words  # a circuit breaker: too much load, not a broken backend
    gateway = None if overflow else _match(_GATEWAY_RULES, words)
    from_code = _of_code(answer.error) if answer is not None and answer.error is not None else None
    return gateway or _match(_BODY_RULES, words) or from_code or by_status


def _match(rules: tuple[tuple[ErrorClass, re.Pattern[str]], ...], words: str) -> ErrorClass | None:
    return next((error_class for error_class, pattern in rules if words and pattern.search(words)), None)


def _of_code(error: ApiError) -> ErrorClass | None:
    return _BODY_CODE.get(error.code or "") or _BODY_CODE.get(error.type or "")


def is_abort(finish_reason: str) -> bool:
    """Whether a finish_reason says that the engine gave up; it may be a sentence or an enum's name."""
    return finish_reason.lower().removeprefix("finish_reason_").split(":")[0].strip() in _ABORT_REASONS


def _words(answer: "Answer | None") -> str:
    if answer is None:
        return ""
    if answer.error is not None:
        return answer.error.words
    return (
        page_words(answer.body_head).lower()[:WORDS_LIMIT] if answer.is_html else answer.body_head.lower()[:WORDS_LIMIT]
    )


def _said(answer: "Answer | None") -> str | None:
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


# ---- what error objects look like ----

_MESSAGE_KEYS = (
    "message",
    "msg",
    "detail",
    "error_msg",
    "error_message",
    "status_msg",
    "faultstring",
    "description",
    "reason",
)
_CODE_KEYS = ("code", "status_code", "statusCode", "error_code", "status", "errcode")


def api_error(obj: Mapping[str, Any], bare: bool = False) -> ApiError | None:
    """The error that a JSON object reports, or None. `bare`: it is known to be one (an error status, `event: error`).

    Dialects: `{"error": {…}}`, `{"error": "…"}`, `{"object": "error", …}`, `{"type": "error", …}`, `{"detail": …}`,
    `{"errors": [{…}]}`, `{"message": …, "code": …}` and kin.
    """
    for key in ("error", "errors", "fault", "Error"):
        if obj.get(key):
            return _from_value(obj[key], obj)
    base = obj.get("base_resp")  # MiniMax: status_code 0 is success
    if isinstance(base, dict) and base.get("status_code"):
        return _from_value(base, obj)
    if obj.get("choices"):
        return None
    told = obj.get("object") == "error" or obj.get("type") == "error" or obj.get("detail")
    has_message = any(obj.get(key) for key in _MESSAGE_KEYS)
    coded = any(
        obj.get(key) not in (None, 0, "0", 200, "200", "", "ok", "success") for key in (*_CODE_KEYS, "error_type")
    )
    if told or (has_message and (bare or coded)) or (bare and obj):
        return _from_value(obj, obj)
    return None


def _from_value(value: Any, whole: Mapping[str, Any]) -> ApiError:
    if isinstance(value, list) and value:
        value = value[0]
    raw = str(value)[: 4 * WORDS_LIMIT]
    outer_type = _text(whole.get("error_type")) or None
    outer_code = next((_text(whole[key]) for key in _CODE_KEYS if whole.get(key)), None)
    if not isinstance(value, dict):
        message = next((_text(whole[key]) for key in _MESSAGE_KEYS if whole.get(key)), None)
        return ApiError(" ".join(filter(None, (_text(value), message))), outer_type, outer_code, None, raw)
    inner = value.get("error")
    if isinstance(inner, dict) and inner is not value:
        return _from_value(inner, value)
    found = next((value[key] for key in _MESSAGE_KEYS if value.get(key)), None)
    message, param = _message(found)
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):  # OpenRouter: the upstream's own words
        message = f"{message or ''} {metadata['raw']}".strip()
    kind = _text(value.get("type")) or outer_type
    code = next((_text(value[key]) for key in _CODE_KEYS if value.get(key)), None) or outer_code
    return ApiError(message, kind if kind != "error" else None, code, _text(value.get("param")) or param, raw)


def _message(found: Any) -> tuple[str | None, str | None]:
    """(message, parameter) from a message that may be text, FastAPI's list of findings or an object."""
    if isinstance(found, dict):
        for key in ("detail", *_MESSAGE_KEYS, "error"):
            if found.get(key):
                message, param = _message(found[key])
                return " ".join(filter(None, (_text(found.get("type")), _text(found.get("code")), message))), param
        return str(found), None
    if isinstance(found, list) and found and isinstance(found[0], dict):
        first = found[0]
        loc = first.get("loc")
        name = str(loc[-1]) if isinstance(loc, list) and loc else None
        words = [_text(first.get(key)) for key in ("type", "msg", "message")]
        return " ".join(filter(None, (*words, f"({name})" if name else None))), name
    return _text(found) or None, None


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return ""
    return value if isinstance(value, str) else str(value)


_PARAM_NAMES = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        r"'loc': [\(\[]'body', '([\w.]+)'",
        r"(?:param(?:eter)?s?|field|argument|key|name|property|option)(?:\(s\))?(?: supplied| name)?"
        r":? *[\[{(]*['\"`]([\w.]+)['\"`]",
        r"['\"`]([\w.]+)['\"`] (?:is|are|was) (?:not|unsupported|only)",
        r"(?:supplied|parameter|field|argument)s?(?:\(s\))?(?: supplied)?: ?['\"`{\[]*([a-z][\w.]+)",
        r"unexpected fields[^{\[]*[{\[]['\"]([\w.]+)",
        r"\b([a-z]\w+) (?:is|are) (?:not|only) (?:supported|allowed)",
    )
)


def unsupported_param(error: ApiError | None) -> str | None:
    """The name of the parameter that an `unsupported_parameter` error refuses, where the body names it."""
    if error is None:
        return None
    if error.param:
        return error.param
    words = error.message or error.raw
    return next((found[1] for found in (pattern.search(words) for pattern in _PARAM_NAMES) if found), None)


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
