"""Events in, one answer out: output chunks with their marks, texts, finish, usage, error. No clock, no socket.

Written for what OpenAI-compatible servers really send, not for what the specification says: odd types, null lists,
usage anywhere, errors inside a stream that began well, one JSON body where a stream was asked for, a proxy's HTML page.
No bytes make it raise, except a line beyond the limit (`sse.LineTooLong`). Text is data: it is never interpreted.
"""

import contextlib
import dataclasses
import itertools
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tokenswarm.errors import ApiError, api_error, is_abort
from tokenswarm.sse import LINE_LIMIT_BYTES, Event, EventParser, LineTooLong

BODY_HEAD_CHARS = 64 * 1024
REPLACEMENT = "\ufffd"
SPLIT_TEXT_CHUNKS = 3  # so many chunks, each repeating all text before it, are no coincidence
REPEATED_TEXT_CHARS = 4  # a last chunk that repeats a shorter answer may be a token


class Usage(msgspec.Struct):
    """Token counts as the server told them; None where it did not."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: Any = None
    thinking: Any = None
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None
    audio: Any = None
    images: Any = None


class _Choice(msgspec.Struct):
    delta: _Delta
    index: int = 0
    finish_reason: str | None = None
    error: Any = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice]
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: Any = None


_decode_chunk: Callable[[bytes], _Chunk] = msgspec.json.Decoder(_Chunk).decode
_decode_any: Callable[[bytes], Any] = msgspec.json.Decoder().decode


@dataclasses.dataclass(slots=True)
class _Pieces:
    """What one choice has brought so far, in pieces."""

    content: list[str] = dataclasses.field(default_factory=list)
    reasoning: list[str] = dataclasses.field(default_factory=list)
    refusal: list[str] = dataclasses.field(default_factory=list)
    arguments: dict[Any, list[str]] = dataclasses.field(default_factory=dict)
    finish_reason: str | None = None


class Answer:
    """One answer. `feed` every read of the body with its mark, then `close`; the attributes below are the result.

    chunk_marks      mark of every output-carrying event (content, reasoning, tool call, refusal, audio)
    chunk_texts      what each of them carried, of any kind; empty without `keep_text`
    running_tokens   completion tokens told by each of them so far (running usage); None where that event told nothing
    first_answer_mark  mark of the first chunk of the visible answer; None where there was none
    usage            the last non-null value of each count, wherever it rode; None where none came
    done_seen        `[DONE]` came
    error            the error object: inside the stream, or of an error body
    chat_chunks, other_events, malformed_events, comments   how many of each
    unreadable       why the body cannot be read at all (an unknown or broken content-encoding)
    streamed         False for one plain JSON answer; `chunk_marks` is empty then
    is_html, body_head   a body that is no event stream: whether it is a page, and its first characters
    compressed       the body had a content-encoding
    output_bytes, reasoning_bytes   length in UTF-8 of all that output chunks carried, and of the reasoning in it
    cumulative       chunks repeated the text before them (it is in `text` once)
    """

    def __init__(
        self, content_type: str | None = None, content_encoding: str | None = None, keep_text: bool = True
    ) -> None:
        self.chunk_marks: list[int] = []
        self.chunk_texts: list[str] = []
        self.running_tokens: list[int | None] = []
        self.first_answer_mark: int | None = None
        self.usage: Usage | None = None
        self.done_seen = False
        self.error: ApiError | None = None
        self.chat_chunks = self.other_events = self.malformed_events = 0
        self.unreadable: str | None = None
        self.streamed = True
        self.is_html = False
        self.body_head = ""
        self.compressed = False
        self.cumulative = False
        self.output_bytes = self.reasoning_bytes = 0
        self.closed = False
        self._keep_text = keep_text
        self._content_type = (content_type or "").lower()
        self._parser = EventParser()
        self._choices: dict[int, _Pieces] = {}
        self._body: bytearray | None = None  # a body that is no event stream
        self._decoder: _Decoder | None = None
        self._encoding = (content_encoding or "").lower().strip()
        self._started = False
        self._leading = b""

    # ---- bytes ----

    def feed(self, data: bytes, mark: int) -> None:
        """The next bytes of the body. Raises LineTooLong."""
        if self._started and self._decoder is None and self._body is None:
            for event in self._parser.feed(data, mark):
                self._take(event)
        else:
            for piece in self._decoded(data):
                self._feed_plain(piece, mark)

    def close(self, mark: int | None = None) -> None:
        """The end of the body. `mark` is not needed for anything: bytes that came earlier keep their own."""
        if self.closed:
            return
        self.closed = True
        if self._leading and not self._started:
            self._start(self._leading, 0)
        with contextlib.suppress(LineTooLong):
            for event in self._parser.close():
                self._take(event, unfinished=True)
        stray = self._parser.stray
        self._read_body(bytes(self._body) if self._body is not None else stray, stray)
        self._find_repeats()
        if self.usage is not None and self.usage.completion_tokens == 0 and self.chunk_marks:
            self.usage.completion_tokens = None  # a placeholder: something was generated
        self.output_bytes = _bytes(self.chunk_texts)
        self.reasoning_bytes = sum(_bytes(pieces.reasoning) for pieces in self._choices.values())
        if not self._keep_text:
            self.chunk_texts = []

    def _decoded(self, data: bytes) -> Iterator[bytes]:
        if self.unreadable is not None:
            return
        if not self._started and self._decoder is None:
            data = self._leading + data
            if len(data) < 2:  # the magic number of gzip has two bytes
                self._leading = data
                return
            self._leading = b""
            try:
                self._decoder = _decoder(self._encoding, data)
            except ValueError as unknown:
                self.unreadable = str(unknown)
                return
            self.compressed = self._decoder is not None
        if self._decoder is None:
            yield data
            return
        try:
            yield self._decoder(data)
        except Exception as broken:  # zlib.error, brotli.error: the libraries share no base
            self.unreadable = f"the body is no valid {self._encoding or 'gzip'}: {broken}"

    def _feed_plain(self, data: bytes, mark: int) -> None:
        if not self._started:
            self._start(self._leading + data, mark)
        elif self._body is not None:
            if len(self._body) + len(data) > LINE_LIMIT_BYTES:
                raise LineTooLong(f"the body is longer than {LINE_LIMIT_BYTES} bytes and no event stream")
            self._body += data
        else:
            for event in self._parser.feed(data, mark):
                self._take(event)

    def _start(self, data: bytes, mark: int) -> None:
        """The first bytes decide what the body is; content types lie too often."""
        first = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if not first and not self.closed and len(data) < 4096:
            self._leading = data
            return
        self._leading = b""
        self._started = True
        if first in (b"{", b"[", b"<"):
            self._body = bytearray(data)
        else:
            for event in self._parser.feed(data, mark):
                self._take(event)

    # ---- events ----

    def _take(self, event: Event, unfinished: bool = False) -> None:
        data = event.data
        try:
            chunk = _decode_chunk(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self._take_odd(event, unfinished)
            return
        if not chunk.choices or chunk.error or event.name == "error":
            self._take_odd(event, unfinished)
            return
        if self.done_seen:
            return
        self.chat_chunks += 1
        if chunk.usage:
            self._add_usage(chunk.usage)
        if chunk.x_groq is not None:
            self._add_usage(_get(chunk.x_groq, "usage"))
        texts = []
        for choice in chunk.choices:
            text = self._take_delta(choice.delta, choice.index, choice.finish_reason, event.mark)
            if text is not None:
                texts.append(text)
            if choice.error:
                self._fail(api_error({"error": choice.error}))
        if texts:
            self._add_chunk(texts[0] if len(texts) == 1 else "".join(texts), event.mark, chunk.usage)

    def _add_chunk(self, text: str, mark: int, usage: Any) -> None:
        self.chunk_marks.append(mark)
        self.chunk_texts.append(text)
        self.running_tokens.append(_count(usage, "completion_tokens", "output_tokens") if usage else None)

    def _take_delta(self, delta: _Delta, index: int, finish_reason: str | None, mark: int) -> str | None:
        """What one choice of a chunk carried; None if that is no output."""
        pieces = self._choices.get(index)
        if pieces is None:
            pieces = self._choices[index] = _Pieces()
        if finish_reason:
            pieces.finish_reason = finish_reason
        content = delta.content
        text = None
        if content:
            pieces.content.append(content)
            text = content
            if self.first_answer_mark is None:
                self.first_answer_mark = mark
        reasoning = delta.reasoning_content or delta.reasoning
        if reasoning:
            pieces.reasoning.append(reasoning)
            text = reasoning + content if content else reasoning
        if (
            delta.tool_calls is not None
            or delta.refusal is not None
            or delta.audio is not None
            or delta.function_call is not None
            or delta.reasoning_details is not None
            or delta.thinking is not None
            or delta.images is not None
        ):
            return self._take_rest(pieces, delta, text, bool(reasoning), mark)
        return text

    def _take_rest(self, pieces: _Pieces, delta: _Delta, text: str | None, reasoned: bool, mark: int) -> str | None:
        """The rarer kinds of output."""
        found = [] if text is None else [text]
        if not reasoned:
            thought = _joined(delta.thinking) or _joined(delta.reasoning_details)
            if thought:
                pieces.reasoning.append(thought)
                found.append(thought)
        calls = delta.tool_calls if isinstance(delta.tool_calls, list) else [delta.tool_calls]
        for number, call in enumerate([*calls, delta.function_call and {"function": delta.function_call}]):
            said = self._take_call(pieces, call, number)
            if said is not None:
                found.append(said)
        refusal = _joined(delta.refusal)
        audio = _get(delta.audio, "transcript") or _get(delta.audio, "data")
        if refusal:
            pieces.refusal.append(refusal)
        spoken = [part for part in (refusal, _as_text(audio), _as_text(delta.images or None)) if part]
        if spoken and self.first_answer_mark is None:
            self.first_answer_mark = mark
        found += spoken
        return "".join(found) if found else None

    def _take_call(self, pieces: _Pieces, call: Any, number: int) -> str | None:
        if not isinstance(call, dict):
            return None
        function = call.get("function")
        name, arguments = _get(function, "name"), _get(function, "arguments")
        if isinstance(arguments, dict | list):  # sent as an object, not as text
            arguments = json.dumps(arguments, ensure_ascii=False) if arguments else None
        if not (call.get("id") or name or arguments):
            return None
        key = call.get("index", number)
        parts = pieces.arguments.setdefault(key if isinstance(key, int | str) else number, [])
        if arguments:
            parts.append(_as_text(arguments))
        return _as_text(name) + _as_text(arguments)

    def _take_odd(self, event: Event, unfinished: bool) -> None:
        """Whatever is no plain chunk: `[DONE]`, usage alone, errors, odd types, several JSON texts in one event."""
        data = event.data.strip()
        while data.startswith(b"data:"):  # a gateway put the prefix twice
            data = data[5:].strip()
        if data.strip(b'"').upper() == b"[DONE]":
            self.done_seen = True
            return
        value = _loads(data)
        if value is _BROKEN and len(event.lines) > 1:
            for line, mark in event.lines:
                if line.strip():
                    self._take(Event(line, event.name, mark), unfinished and line is event.lines[-1][0])
            return
        if self.done_seen and not isinstance(value, dict):
            return
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            for item in value:
                self._take_object(item, event)
        elif isinstance(value, dict):
            self._take_object(value, event)
        elif event.name == "error":
            text = data.decode("utf-8", "replace") if value is _BROKEN else _as_text(value)
            self._fail(ApiError(message=text, raw=text))
        elif value is not None and not (unfinished and value is _BROKEN):  # an event that was cut off is not malformed
            self.malformed_events += 1
            self.body_head = self.body_head or data[:BODY_HEAD_CHARS].decode("utf-8", "replace")

    def _take_object(self, obj: dict[str, Any], event: Event) -> None:
        usage = obj.get("usage") or _get(obj.get("x_groq"), "usage")
        self._add_usage(usage)
        failed = api_error(obj, bare=event.name == "error")
        if failed is not None:
            self._fail(failed)
        choices = obj.get("choices")
        if not isinstance(choices, list):
            if failed is None and not self._is_chunk(obj):
                self.other_events += 1
            else:
                self.chat_chunks += failed is None
            return
        if self.done_seen:
            return
        self.chat_chunks += failed is None or bool(choices)
        texts = []
        for number, choice in enumerate(choices):
            if isinstance(choice, dict):
                text = self._take_choice(choice, number, event.mark)
                if text is not None:
                    texts.append(text)
        if texts:
            self._add_chunk("".join(texts), event.mark, usage)

    @staticmethod
    def _is_chunk(obj: dict[str, Any]) -> bool:
        return "choices" in obj or "usage" in obj or str(obj.get("object")).startswith("chat.completion")

    def _take_choice(self, choice: dict[str, Any], number: int, mark: int) -> str | None:
        """One choice of any shape: `delta`, legacy `text`, or a whole `message`."""
        if choice.get("error"):
            self._fail(api_error({"error": choice["error"]}))
        index = choice.get("index")
        index = index if isinstance(index, int) else number
        delta = choice.get("delta")
        source = delta if isinstance(delta, dict) else {}
        if not source and isinstance(choice.get("message"), dict) and not self.chunk_marks:
            source = choice["message"]
        content = source.get("content")
        thought = ""
        if isinstance(content, list):  # Mistral: parts, of which some may be thinking
            thinking = [part for part in content if _get(part, "type") == "thinking"]
            thought = _joined(thinking)
            content = [part for part in content if part not in thinking]
        reasoning = thought or _joined(source.get("reasoning_content")) or _joined(source.get("reasoning"))
        rest = {
            name: source.get(name)
            for name in ("tool_calls", "function_call", "refusal", "audio", "images", "reasoning_details", "thinking")
        }
        text = _joined(content) or _joined(choice.get("text"))
        finish = choice.get("finish_reason")
        return self._take_delta(
            _Delta(content=text, reasoning=reasoning, **rest), index, _as_text(finish) if finish else None, mark
        )

    def _fail(self, error: ApiError | None) -> None:
        self.error = self.error or error

    def _add_usage(self, told: Any) -> None:
        if not isinstance(told, dict):
            return
        output_details = told.get("completion_tokens_details") or told.get("output_tokens_details")
        prompt_details = told.get("prompt_tokens_details") or told.get("input_tokens_details")
        new = Usage(
            _count(told, "prompt_tokens", "input_tokens"),
            _count(told, "completion_tokens", "output_tokens"),
            _count(output_details, "reasoning_tokens") or _count(told, "reasoning_tokens"),
            _first(
                _count(prompt_details, "cached_tokens"),
                _count(told, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
            ),
        )
        if new.reasoning_tokens is None:
            new.reasoning_tokens = _count(output_details, "reasoning_tokens")
        old = self.usage
        if new == Usage() or (old is not None and not new.prompt_tokens and not new.completion_tokens):
            return  # null, or zeros after real counts: a placeholder
        if old is None:
            self.usage = new
            return
        for name in Usage.__struct_fields__:
            value = getattr(new, name)
            if value is not None:
                setattr(old, name, value)

    # ---- the whole ----

    def _read_body(self, body: bytes, stray: bytes) -> None:
        """A body, or what was left over of a stream, that is no event."""
        text = body.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if not text:
            return
        self.is_html = looks_like_html(text, self._content_type) and not self.chat_chunks
        if self.chat_chunks or self.done_seen:
            self.malformed_events += any(not _is_field(line) for line in stray.splitlines())
        value, rest = _first_json(text)
        if value is _BROKEN:
            self.body_head = self.body_head or text[:BODY_HEAD_CHARS]
            return
        self.done_seen = self.done_seen or "[DONE]" in rest
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, dict):
            self._read_whole(value)
        if self.chat_chunks == 0:
            self.body_head = self.body_head or text[:BODY_HEAD_CHARS]

    def _read_whole(self, obj: dict[str, Any]) -> None:
        failed = api_error(obj, bare=not obj.get("choices"))
        plain = isinstance(obj.get("choices"), list) and any(
            _get(c, "message") or _get(c, "text") for c in obj["choices"]
        )
        if failed is not None and (self._says_error(obj) or not plain):
            self._fail(failed)
        if not plain or self.chunk_marks:
            return
        self.streamed = False
        self._take_object(obj, Event(b"", None, 0))
        self.chunk_marks, self.chunk_texts, self.running_tokens = [], [], []
        self.first_answer_mark = None  # nobody saw it arrive

    def _find_repeats(self) -> None:
        """Servers that send all text so far in every chunk, or the whole answer again in the last one."""
        for pieces in self._choices.values():
            texts = pieces.content
            if len(texts) < SPLIT_TEXT_CHUNKS:
                continue
            grows = all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
            if grows and len(texts[-1]) > len(texts[0]):
                pieces.content = [texts[-1]]
                self.cumulative = True
                continue
            before = "".join(texts[:-1])
            if texts[-1] == before and len(before.strip()) >= REPEATED_TEXT_CHARS and len(set(texts[:-1])) > 1:
                pieces.content = texts[:-1]
                self.cumulative = True

    @staticmethod
    def _says_error(obj: dict[str, Any]) -> bool:
        return bool(obj.get("error"))

    @property
    def comments(self) -> int:
        return self._parser.comments

    @property
    def has_output(self) -> bool:
        """Whether anything was generated, streamed or not."""
        return bool(self.chunk_marks) or (
            not self.streamed
            and any(p.content or p.reasoning or p.refusal or p.arguments for p in self._choices.values())
        )

    @property
    def text(self) -> str:
        """The visible answer; of several choices, the first."""
        return _clean("".join(self._first_choice().content))

    @property
    def texts(self) -> dict[int, str]:
        """The visible answer of each choice, by its index."""
        return {index: _clean("".join(self._choices[index].content)) for index in sorted(self._choices)}

    @property
    def reasoning_text(self) -> str:
        return _clean("".join(self._first_choice().reasoning))

    @property
    def refusal(self) -> str:
        return _clean("".join(self._first_choice().refusal))

    @property
    def tool_arguments(self) -> str:
        """The arguments of all tool calls, call by call."""
        return _clean("".join("".join(parts) for parts in self._first_choice().arguments.values()))

    @property
    def finish_reason(self) -> str | None:
        """As sent; of several choices, one that was aborted, else the first."""
        reasons = [self._choices[i].finish_reason for i in sorted(self._choices)]
        told = [reason for reason in reasons if reason is not None]
        return next((reason for reason in told if is_abort(reason)), told[0] if told else None)

    @property
    def aborted(self) -> bool:
        """Whether the engine gave up, by its own finish_reason."""
        return self.finish_reason is not None and is_abort(self.finish_reason)

    @property
    def replacement_chars(self) -> int:
        """U+FFFD in what was generated: characters that the server cut in two, or bytes that are no UTF-8."""
        texts = ("".join(p.content) + "\n" + "".join(p.reasoning) for p in self._choices.values())
        return sum(_clean(text).count(REPLACEMENT) for text in texts)

    @property
    def chunk_tokens(self) -> list[int] | None:
        """Tokens that each output chunk brought, by the running usage; None where not every chunk tells it."""
        running = [tokens for tokens in self.running_tokens if tokens is not None]
        total = self.usage.completion_tokens if self.usage else None
        if not running or len(running) < len(self.chunk_marks) or len(self._choices) > 1:
            return None
        if len(running) > 1 and sum(running) == total and min(running) > 0:
            return running  # some servers tell the tokens of the chunk, not the running sum
        steps = [later - earlier for earlier, later in zip([0, *running], running, strict=False)]
        return steps if min(steps) >= 0 and max(steps) > 0 and (len(running) == 1 or running[-1] > running[0]) else None

    def _first_choice(self) -> _Pieces:
        return self._choices[min(self._choices)] if self._choices else _Pieces()


# ---- values of any type ----

_BROKEN = object()  # no JSON


def _loads(data: bytes) -> Any:
    """JSON, or _BROKEN. Invalid UTF-8 is replaced; raw control characters and lone surrogates are let through."""
    try:
        return _decode_any(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return _BROKEN


def _first_json(text: str) -> tuple[Any, str]:
    """(the first JSON value, what follows it), or (_BROKEN, "")."""
    if text[:1] not in "{[":
        return _BROKEN, ""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return _BROKEN, ""
    return value, text[end:]


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _count(told: Any, *names: str) -> int | None:
    """A count under the first of `names` that holds one; numbers as text and 12.0 count, -1 and null do not."""
    for name in names:
        value = _get(told, name)
        if isinstance(value, str) and value.isdecimal() and len(value) < 16:
            return int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
            return int(value)
    return None


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or isinstance(value, bool) else str(value)


def _joined(value: Any) -> str:
    """The text in a string, a part, or a list of parts."""
    if isinstance(value, list):
        return "".join(map(_joined, value))
    if isinstance(value, dict):
        return next((_joined(value[key]) for key in ("text", "thinking", "content", "summary") if value.get(key)), "")
    return _as_text(value)


def _bytes(texts: list[str]) -> int:
    return len("".join(texts).encode("utf-8", "surrogatepass"))


def _clean(text: str) -> str:
    """Surrogate halves put together, or replaced where one is alone: the text can be written anywhere."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _is_field(line: bytes) -> bool:
    """Whether a stray line has the shape of a field that we do not know: the grammar says to ignore it."""
    name = line.split(b":", 1)[0]
    return not line.strip() or name.replace(b"-", b"").replace(b"_", b"").isalpha()


def looks_like_html(text: str, content_type: str) -> bool:
    head = text[:2048].lstrip().lower()
    tags = ("<!doctype html", "<html", "<head", "<body", "<title", "<center", "<h1")
    return head.startswith(tags) or (head.startswith("<") and ("html" in content_type or any(t in head for t in tags)))


# ---- content-encoding ----


_Decoder = Callable[[bytes], bytes]  # decompresses as bytes come: a token must not wait for the next one


def _gzip() -> _Decoder:
    inner = zlib.decompressobj(wbits=31)

    def decompress(data: bytes) -> bytes:
        nonlocal inner
        out = b""
        while data:
            out += inner.decompress(data)
            data = inner.unused_data
            if inner.eof and data:  # another member follows
                if not data.strip(b"\0"):
                    break
                inner = zlib.decompressobj(wbits=31)
        return out

    return decompress


def _decoder(encoding: str, head: bytes) -> _Decoder | None:
    """What undoes `encoding`; None where the body is plain, whatever the header says. Raises ValueError if unknown."""
    if head[:2] == b"\x1f\x8b":
        return _gzip()
    if encoding in ("", "identity", "none") or encoding in ("gzip", "x-gzip"):  # no gzip without its magic number
        return None
    if head[:1] in b"d:{[<" and head[:5].strip() in (b"data:", b"data", b"{", b"<html"):
        return None
    if encoding == "deflate":  # zlib by the book, raw by habit
        is_zlib = head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
        return zlib.decompressobj(15 if is_zlib else -15).decompress
    if encoding == "br":
        try:
            import brotli
        except ImportError:
            raise ValueError("content-encoding br cannot be read here: install brotli, or ask for identity") from None
        return brotli.Decompressor().process  # type: ignore[no-any-return]
    raise ValueError(f"content-encoding {encoding} cannot be read: ask the server for identity")
