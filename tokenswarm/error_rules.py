"""The words and codes by which failures are told apart. Patterns are tried on lower-case text, in order."""

import re

from tokenswarm.record import ErrorClass

Rules = tuple[tuple[ErrorClass, re.Pattern[str]], ...]

# What a body says → class. The first pattern that is found wins, so the order matters: a context error may name a
# parameter, a parameter error may name the model, a missing model is often "or you do not have access".
BODY_RULES: Rules = tuple(
    (error_class, re.compile("|".join(patterns)))
    for error_class, patterns in (
        (
            ErrorClass.RATE_LIMITED,  # exact codes first: "request too large … tokens per minute" is no context error
            (
                r"rate_limit_(exceeded|error)|ratelimiterror|insufficient_quota|resource_exhausted",
                r"tokens? per (min|day)",
            ),
        ),
        (
            ErrorClass.CONTEXT_LENGTH,
            (
                r"context.?(length|window|size|limit)",
                r"exceed_context|max(imum)?[ _]model[ _]len|maximum (prompt|sequence) length|maximum number of tokens",
                r"(prompt|input|conversation|message)s?( is| are|\b.{0,60}?\bis)? too (long|large)\b",
                r"reduce the length of the (messages|prompt|input)|string_above_max_length",
                r"(prompt|input|token) (length|tokens?|token count)\b.{0,60}\b(exceed|longer|greater|larger)",
                r"\btokens?\b.{0,60}\b(exceed\w*|longer|greater|larger)\b.{0,40}"
                r"\b(input|prompt|sequence|model|max\w* (message|total|new) tokens)\b|tokens in the (prompt|input) exceed",
                r"exceed\w* (the )?(model('?s)? )?token limit|range of input length",
                r"inputs`? (tokens \+|must have less than)|max_(prompt|input)_tokens_exceeded",
                r"max_tokens must be at least 1, got -|max_tokens \(-|longer than the (model|max)",
            ),
        ),
        (
            ErrorClass.UNSUPPORTED_PARAMETER,
            (
                r"extra_forbidden|value_error\.extra|unsupported.(parameter|value)|unknown_parameter|unsupportedparams",
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
                r"(is not|isn't) an? (valid|known|supported|recogni[sz]ed|allowed) (param|field|argument|propert|option|key)",
            ),
        ),
        (
            ErrorClass.MODEL_NOT_FOUND,
            (
                r"model_?not_?found|deployment_?not_?found|model_decommissioned|no such model|not a valid model",
                r"(unknown|invalid|unsupported|no) model( name| id|:| ['\"`]|$)|server is pinned to",
                r"no models? (is |are )?(currently )?(loaded|available|found)|llm provider not provided",
                r"(could not|cannot|can't|unable to) (find|access)\b.{0,40}\bmodel|model (id|identifier|name) is invalid",
                r"\bmodels?\b.{0,160}?\b(does(n't| not) exist|not exist|not found|cannot be found|decommissioned"
                r"|is not (available|served|loaded|found|supported|a valid|registered|deployed))",
                r"deployment\b.{0,80}\bdoes not exist|no endpoints found for|not_found_error model:",
            ),
        ),
        (
            ErrorClass.OVERLOADED,
            (
                r"overload|server_busy|service_?unavailable(_?error)?|slow_down|unavailable_error|capacity_exceeded",
                r"service (is )?(temporarily |currently )?unavailable|(too|currently|is|server|system|engine) busy",
                r"(at|over)[ _](full |max(imum)? )?capacity|out of capacity|queue (is )?(currently )?full",
                r"queue (limit|size)|too many (in-?flight|pending|queued|waiting) requests",
                r"no (free |available )?slots?( available)?\b",
                r"no[ _](healthy|available|ready)[ _](upstream|backend|deployment|worker|server|instance|endpoint|replica)",
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
GATEWAY_RULES: Rules = (
    (
        ErrorClass.GATEWAY_TIMEOUT,
        re.compile(
            r"upstream (request |response |read |idle |server )?(is )?(time(d |-)?out|timing out)"
            r"|max stream duration|context deadline exceeded|gateway.?time-?d?.?out|stream timeout"
            r"|a timeout occurred|litellm\.timeout|apitimeouterror|backend.{0,20}timed? ?out"
        ),
    ),
    (
        ErrorClass.GATEWAY_ERROR,
        re.compile(
            r"upstream (connect|protocol|prematurely|reset|connection|server)|disconnect/reset before headers"
            r"|bad gateway|reset reason|apiconnectionerror|proxy error|web server is (down|returning)"
            r"|error (reading|proxying|from) (from )?(upstream|remote|backend)|invalid response from"
            r"|connect: connection refused|do[ _]request[ _]failed|origin is unreachable|no route to|cannot connect to host"
        ),
    ),
)

STATUS: dict[int, ErrorClass] = {
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
BODY_CODE = {str(status): STATUS[status] for status in (401, 429, 503, 529)}  # a code inside an error object
PROXIES = re.compile(
    r"nginx|openresty|cloudflare|envoy|haproxy|varnish|akamai|squid|traefik|istio|awselb|cloudfront|caddy"
)


def match(rules: Rules, words: str) -> ErrorClass | None:
    """The class of the first rule that is found in `words`."""
    return next((error_class for error_class, pattern in rules if words and pattern.search(words)), None)
