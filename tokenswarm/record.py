"""What is recorded: one row per request, whole or absent. The contract between collecting and judging.

Only observations are stored: instants and counts. TTFT and the like are derived later (`tokenswarm.metrics`), so that a
better definition can re-read an old run. Unknown is `None` here and an empty cell in the file; never 0, -1 or "nan".
Files are UTF-8 with "\\n" line ends and a decimal point; a row is one physical line: error texts are escaped and cut.
"""

import dataclasses
import enum
import operator
import unicodedata
from collections.abc import Callable
from typing import Any

import msgspec

SCHEMA = 1
DETAIL_LIMIT = 300


class Outcome(enum.StrEnum):
    """How a request ended. A closed set; sent = ok + failed + empty + cancelled, always."""

    OK = "ok"
    FAILED = "failed"
    EMPTY = "empty"  # ended well, but without a single output chunk
    CANCELLED = "cancelled"  # we stopped it: not the server's failure


class ErrorClass(enum.StrEnum):
    """Why a request is `failed` or `empty`. A closed set, decided in `tokenswarm.errors` and nowhere else."""

    CONNECT_FAILED = "connect_failed"  # DNS, refused, TLS, or our own connect limit
    TIMEOUT_FIRST_TOKEN = "timeout_first_token"  # no token within our own limit, an option like the next two
    TIMEOUT_STALL = "timeout_stall"  # no byte for longer than our own limit, in mid answer
    TIMEOUT_TOTAL = "timeout_total"  # the answer was not complete within our own limit
    CONNECTION_RESET = "connection_reset"  # the transport broke in mid answer
    STREAM_TRUNCATED = "stream_truncated"  # clean end, but neither finish_reason nor [DONE]
    STREAM_ERROR = "stream_error"  # an error object inside a 200 stream
    ABORTED = "aborted"  # the engine gave up: finish_reason abort/error
    MALFORMED_STREAM = "malformed_stream"  # no SSE, JSON or chat chunk where one was needed
    EMPTY_RESPONSE = "empty_response"  # 200 and no output at all
    RATE_LIMITED = "rate_limited"  # 429, or a body that says so
    OVERLOADED = "overloaded"  # 503, or a body that says so, whatever the code
    AUTH = "auth"  # the key was refused
    MODEL_NOT_FOUND = "model_not_found"  # the server does not serve the model
    CONTEXT_LENGTH = "context_length"  # the prompt, or prompt and answer, exceed the model's window
    UNSUPPORTED_PARAMETER = "unsupported_parameter"  # a field of the request was refused
    GATEWAY_ERROR = "gateway_error"  # a proxy's own page or words
    GATEWAY_TIMEOUT = "gateway_timeout"  # 504, or a proxy's words for it
    HTTP_ERROR = "http_error"  # any other status


class Caution(enum.StrEnum):
    """`warnings` of a row: what to know about it. They never turn it into a failure."""

    USAGE_MISSING = "usage_missing"
    DONE_MISSING = "done_missing"
    FINISH_REASON_MISSING = "finish_reason_missing"
    MULTI_TOKEN_CHUNKS = "multi_token_chunks"
    SINGLE_CHUNK_RESPONSE = "single_chunk_response"
    BUFFERING_SUSPECTED = "buffering_suspected"
    REPLACEMENT_CHARS = "replacement_chars"
    MALFORMED_EVENT = "malformed_event"
    CUMULATIVE_CHUNK = "cumulative_chunk"
    HIDDEN_REASONING = "hidden_reasoning"
    SHORT_OUTPUT = "short_output"
    PROMPT_TRUNCATED = "prompt_truncated"
    COMPRESSED_STREAM = "compressed_stream"
    NOT_STREAMED = "not_streamed"


class TokensFrom(enum.StrEnum):
    """Where the number of output tokens comes from."""

    USAGE = "usage"
    TOKENIZER = "tokenizer"
    CHUNKS = "chunks"  # nobody told: `output_tokens` is empty and only chunks can be counted


class Stamp(enum.StrEnum):
    """Who took the arrival times: the kernel (`SO_TIMESTAMPNS`) or this process when it read."""

    KERNEL = "kernel"
    USER = "user"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One HTTP request as it was observed. Field order is column order.

    `*_at` are epoch seconds; `*_us` are whole microseconds, those of the answer counted from `sent_at`.
    """

    request_id: str  # unique in the run
    worker: str  # the process that sent it
    user: str  # the simulated user that sent it
    task: str  # the kind of request
    conversation: str | None = None  # multi-turn only
    turn: int | None = None  # multi-turn only
    prompt_id: str | None = None  # which prompt of the workload
    scheduled_at: float | None = None  # open loop only: when it should have been sent
    sent_at: float  # just before the first byte was written to a connected socket (of the attempt, if none was)
    connect_us: int | None = None  # set-up of a NEW connection, before sent_at; None when reused
    tls_us: int | None = None  # the TLS handshake of a new connection, also before sent_at
    reconnected: int | None = None  # times a reused or long idle connection was closed before any byte of an answer
    headers_us: int | None = None  # response headers; they are no token
    chunk_us: tuple[int, ...] = ()  # arrival of every output-carrying chunk
    chunk_tokens: tuple[int, ...] | None = None  # tokens per chunk, where the server tells (running usage)
    first_answer_us: int | None = None  # first chunk of the visible answer, where reasoning may have come before
    ended_us: int | None = None  # end of the stream
    outcome: Outcome  # see Outcomes
    error_class: ErrorClass | None = None  # why it was not ok; see Outcomes
    http_status: int | None = None  # empty where no answer came
    detail: str | None = None  # the server's or the system's words on one line, at most 300 characters
    warnings: tuple[Caution, ...] = ()  # what to know about it, separated by spaces; see Outcomes
    finish_reason: str | None = None  # as sent
    max_tokens: int | None = None  # limit of the answer that was asked for
    prompt_tokens: int | None = None  # the server's usage
    output_tokens: int | None = None  # usage, or a tokenizer's count: `tokens_from` says which
    reasoning_tokens: int | None = None  # the server's usage; they are among the output tokens
    cached_tokens: int | None = None  # the server's usage: prompt tokens found in its prefix cache
    tokens_from: TokensFrom | None = None  # usage, tokenizer or chunks: who counted the output tokens
    stamp: Stamp | None = None  # kernel or user: who took the arrival times
    lag_max_us: int | None = None  # largest distance between an arrival and the moment this process read it
    coalesced: int | None = None  # chunks that shared one read with the chunk before


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One level of target concurrency. Written by the master only; rows are joined to steps by time."""

    step: int  # 1-based
    target_users: int
    started_at: float  # spawning began
    settled_at: float | None = None  # all users were up; the hold counts from here
    ended_at: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HealthRecord:
    """The state of one client process over one interval (about a second) that ended at `at`."""

    at: float
    worker: str
    users: int
    in_flight: int
    cpu_ratio: float  # CPU seconds of this process / seconds of the interval
    loop_lag_max_us: int  # longest time the event loop was kept from reading
    reads: int  # reads of the sockets
    kernel_reads: int  # of them, with a kernel stamp
    backlog: int  # answers and chunks read, but not yet parsed
    rss_bytes: int
    clock_step_us: int  # movement of the wall clock against the monotonic one since the interval before
    stolen_ratio: float | None = None  # of this machine's CPU time, what a hypervisor gave to others; None: not told


Row = RequestRecord | StepRecord | HealthRecord


_encode = msgspec.json.Encoder().encode

_COLUMNS: dict[type[Row], tuple[str, ...]] = {
    kind: tuple(field.name for field in dataclasses.fields(kind)) for kind in (RequestRecord, StepRecord, HealthRecord)
}

_VALUES: dict[type[Row], Callable[[Any], tuple[Any, ...]]] = {
    kind: operator.attrgetter(*names) for kind, names in _COLUMNS.items()
}


def columns(kind: type[Row]) -> tuple[str, ...]:
    """Column names of a record type, in file order."""
    return _COLUMNS[kind]


def one_line(text: str, limit: int = DETAIL_LIMIT) -> str:
    """`text` on one physical line, at most `limit` characters: control characters are escaped, never dropped unseen."""
    if len(text) <= limit and text.isprintable():
        return text
    breaking = ("Cc", "Cs", "Zl", "Zp")
    escaped = "".join(
        char.encode("unicode_escape").decode("ascii") if unicodedata.category(char) in breaking else char
        for char in text[: limit + 1]
    )
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"


def _text(value: object) -> str:
    text = one_line(str(value))
    return '"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text


def _several(values: tuple[object, ...]) -> str:
    """Numbers or words, separated by spaces."""
    if values and type(values[0]) is int:  # as JSON: a quarter of the time that one format for all would take
        return _encode(values)[1:-1].replace(b",", b" ").decode()
    return " ".join(map(str, values))


# by a value's own type (all others are text), since a row has thirty cells and is written while streams flow
_CELLS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "",
    int: str,
    float: "{:.6f}".format,
    tuple: _several,
    **{kind: kind.__str__ for kind in (Outcome, ErrorClass, TokensFrom, Stamp)},
}


def header(kind: type[Row]) -> str:
    """The file's first line."""
    return ",".join(columns(kind)) + "\n"


def to_csv(record: Row) -> str:
    """`record` as one physical line of CSV, its "\\n" included."""
    kind = type(record)
    return ",".join([_CELLS.get(type(value), _text)(value) for value in _VALUES[kind](record)]) + "\n"


_INT = frozenset({"turn", "max_tokens", "reconnected", "http_status", "coalesced"})
_ENUM: dict[str, type[enum.StrEnum]] = {
    "outcome": Outcome,
    "error_class": ErrorClass,
    "tokens_from": TokensFrom,
    "stamp": Stamp,
}


def _value(name: str, cell: str) -> object:
    if name in ("chunk_us", "chunk_tokens"):
        return tuple(map(int, cell.split())) if cell or name == "chunk_us" else None
    if name == "warnings":
        return tuple(map(Caution, cell.split()))
    if cell == "":
        return None
    if name in _ENUM:
        return _ENUM[name](cell)
    if name.endswith("_at"):
        return float(cell)
    if name in _INT or name.endswith(("_us", "_tokens")):
        return int(cell)
    return cell


def request_from_cells(cells: dict[str, str]) -> RequestRecord:
    """The record of a row read back (`csv.DictReader`). Columns that this version does not know are ignored.

    Raises ValueError or TypeError where a cell is not what its column says.
    """
    known = columns(RequestRecord)
    return RequestRecord(**{name: _value(name, cells[name]) for name in known if name in cells})  # type: ignore[arg-type]
