"""Events in, one answer out: output chunks with their marks, texts, finish, usage, error. No clock, no socket.

Written for what OpenAI-compatible servers really send, not for what the specification says: odd types, null lists,
usage anywhere, errors inside a stream that began well, one JSON body where a stream was asked for, a proxy's HTML page.
No bytes make it raise, except a line beyond the limit (`sse.LineTooLong`). Text is data: it is never interpreted.
"""

import array
import contextlib
import operator
import re
from typing import Any

import msgspec

from tokenswarm.api_error import ApiError, api_error, is_error_name, named_error
from tokenswarm.body import Body
from tokenswarm.choice import Delta, Pieces, choices_of, is_abort, loose_delta, loose_reason
from tokenswarm.chunk import decode_chunk
from tokenswarm.chunk_pattern import Pattern, learn
from tokenswarm.long_work import Breathe, hold_breath, parts
from tokenswarm.loose_json import BROKEN, as_text, byte_count, clean, first_json, get, json_texts, loads
from tokenswarm.sse import Event
from tokenswarm.usage import Usage, chunk_tokens, read_usage

BODY_HEAD_CHARS = 64 * 1024
TEXTS_IN_EVENT = 1024  # no more are read of one event
_ERROR_FIELD = b"error:"
_JSON_LINE = re.compile(r"^[{\[]", re.M)
REPLACEMENT = "\ufffd"
LESSON_EVERY = 8  # output chunks: learning a pattern takes as long as reading two of them
FIRST_LESSONS = 4  # chunks at the beginning, where no two need be alike


class Answer:
    """One answer. `feed` every read of the body with its mark, then `close`; the attributes below are the result.

    marks, chunk_marks  mark of every output-carrying event (content, reasoning, tool call, refusal, audio); as a list
    chunk_texts        what each of them carried, of any kind; empty without `keep_text`
    running_tokens     completion tokens told by each of them so far; None where that event told nothing
    first_answer_mark  mark of the first chunk of the visible answer; None where there was none
    usage              the last non-null value of each count, wherever it rode; None where none came
    done_seen          `[DONE]` came
    error              the error object: inside the stream, or of an error body
    chat_chunks, other_events, malformed_events, comments   how many of each
    unreadable         why the body cannot be read at all (an unknown or broken content-encoding)
    streamed           False for one plain JSON answer; `chunk_marks` is empty then
    is_html, body_head  a body that is no event stream: whether it is a page, and its first characters
    compressed         the body had a content-encoding
    output_bytes, reasoning_bytes   length in UTF-8 of all that output chunks carried, and of the reasoning in it
    cumulative         chunks repeated the text before them (it is in `text` once)
    """

    def __init__(
        self, content_type: str | None = None, content_encoding: str | None = None, keep_text: bool = True
    ) -> None:
        self.marks: array.array[int] = array.array("q")
        self.chunk_texts: list[str] = []
        self._told: list[int | None] | None = None  # once one chunk has told its tokens
        self.first_answer_mark: int | None = None
        self.usage: Usage | None = None
        self.done_seen = False
        self.error: ApiError | None = None
        self.chat_chunks = self.other_events = self.malformed_events = 0
        self.streamed = True
        self.is_html = False
        self.body_head = ""
        self.cumulative = False
        self.output_bytes = self.reasoning_bytes = 0
        self.closed = False
        self._gaps: list[int] | None = None
        self._keep_text = keep_text
        self._content_type = (content_type or "").lower()
        self._body = Body(content_encoding)
        self._choices: dict[int, Pieces] = {}
        self._pattern: Pattern | None = None
        self._pattern_texts: list[str] = []  # where the texts of chunks that follow it belong
        self._message_chunks = 0  # output chunks that had no delta but a `message`
        self._lesson_at = 0  # output chunks from which on one is learnt from

    # ---- bytes ----

    def feed(self, data: bytes, mark: int) -> None:
        """The next bytes of the body. Raises LineTooLong."""
        self.feed_all([data], [mark])

    def feed_all(self, reads: list[bytes], marks: list[int]) -> None:
        """The next reads of the body, in their order, each with its mark. Raises LineTooLong."""
        at = 0
        while at < len(reads):
            texts = self._pattern.run(reads, at) if self._pattern is not None and self._body.events.between else []
            if texts:
                self._take_run(texts, marks[at : at + len(texts)])
            else:
                self._feed(reads[at], marks[at])
            at += len(texts) or 1

    def _take_run(self, texts: list[str], marks: list[int]) -> None:
        """Chunks that follow the pattern, one after the other."""
        self.chat_chunks += len(texts)
        self.marks.extend(marks)
        self.output_bytes += byte_count(texts)
        if self._told is not None:
            self._told.extend([None] * len(texts))
        self._pattern_texts.extend(texts)
        if self._keep_text:
            self.chunk_texts.extend(texts)

    def _feed(self, data: bytes, mark: int) -> None:
        one = self._body.one_event(data)
        if one is None:
            for event in self._body.feed(data, mark):
                self._take_event(event)
            return
        try:
            self._take(one, mark)
        except RecursionError:
            self.malformed_events += 1
            return
        if len(self.marks) > self._lesson_at and self.marks[-1] == mark:
            self._learn(data, one)

    def close(self, mark: int | None = None) -> None:
        """The end of the body. `mark` is accepted for symmetry: what came earlier keeps its own."""
        if self.closed:
            return
        self.closed = True
        for event in self._body.close():
            self._take_event(event, unfinished=True)
        self._read_body(self._body.rest)
        for pieces in self._choices.values():
            self.cumulative |= pieces.drop_repeats()
        if self.usage is not None and self.usage.completion_tokens == 0 and self.marks:
            self.usage.completion_tokens = None  # a placeholder: something was generated
        self.reasoning_bytes = sum(byte_count(pieces.reasoning) for pieces in self._choices.values())
        self.chunk_texts = [clean(text) for text in self.chunk_texts]

    # ---- events ----

    def _take_event(self, event: Event, unfinished: bool = False) -> None:
        try:
            if (event.name is not None and is_error_name(event.name)) or not self._take(
                event.data, event.mark, odd=False
            ):
                self._take_odd(event, unfinished)
        except RecursionError:  # JSON nested so deeply is no chunk
            self.malformed_events += 1

    def _learn(self, data: bytes, event: bytes) -> None:
        """The last read was this one event, and brought output: others may follow its pattern."""
        chunks = len(self.marks)
        self._lesson_at = chunks + (0 if chunks < FIRST_LESSONS else LESSON_EVERY)
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            at = data.index(event)
            found = learn(data, at, len(data) - at - len(event))
            if found is not None and not self.done_seen:
                self._pattern, pieces = found, self._choices[found.index]
                self._pattern_texts = pieces.content if found.field == "content" else pieces.reasoning

    def _take(self, data: bytes, mark: int, odd: bool = True) -> bool:
        """One event without a name. `odd`: take also what is no plain chunk. Returns whether it was taken."""
        if data == b"[DONE]":
            self._end()
            return True
        try:
            chunk = decode_chunk(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            chunk = None
        if chunk is None or not chunk.choices or chunk.error:
            if odd:
                self._take_event(Event(data, None, mark))
            return odd
        usage = chunk.usage
        if chunk.x_groq is not None:
            usage = usage or get(chunk.x_groq, "usage")
            self._fail(api_error({"x_groq": chunk.x_groq}))
        if self.done_seen:
            self._add_chunk([], usage or chunk.choices[0].usage, mark)
            return True
        self.chat_chunks += 1
        found = []
        for choice in chunk.choices:
            text = self._add_delta(choice.index, choice.delta, choice.finish_reason, mark)
            if text is not None:
                found.append(text)
            if choice.error:
                self._fail(api_error({"error": choice.error}))
            if choice.usage:  # Moonshot
                usage = usage or choice.usage
        if found or usage:
            self._add_chunk(found, usage, mark)
        return True

    def _end(self) -> None:
        """`[DONE]`: what comes after it is no part of the answer."""
        self.done_seen = True
        self._pattern = None

    def _add_delta(self, index: int, delta: Delta, finish_reason: str | None, mark: int) -> str | None:
        pieces = self._choices.get(index)
        if pieces is None:
            pieces = self._choices[index] = Pieces()
        text = pieces.take(delta, finish_reason)
        if self.first_answer_mark is None and pieces.answered:
            self.first_answer_mark = mark
        return text

    def _add_chunk(self, found: list[str], told: Any, mark: int) -> None:
        """A chunk is output if any of its choices carried some. Its usage counts in any case."""
        usage = read_usage(told) if told else None
        if usage is not None:
            if self.usage is None:
                self.usage = usage
            else:
                self.usage.update(usage)
        if found:
            self.output_bytes += byte_count(found)
            tokens = None if usage is None else usage.completion_tokens
            if tokens is not None and self._told is None:
                self._told = [None] * len(self.marks)
            self.marks.append(mark)
            if self._told is not None:
                self._told.append(tokens)
            if self._keep_text:
                self.chunk_texts.append("".join(found))

    def _take_odd(self, event: Event, unfinished: bool) -> None:
        """Whatever is no plain chunk: `[DONE]`, usage alone, errors, odd types, several JSON texts in one event."""
        data = event.data.strip()
        while data.startswith(b"data:"):  # a gateway put the prefix twice
            data = data[5:].strip()
        if data.strip(b'"').upper() == b"[DONE]":
            self._end()
            return
        value = loads(data)
        if value is BROKEN and len(event.lines) > 1:  # events that are separated by one line end only
            for number, (line, mark) in enumerate(event.lines, 1):
                if line.strip():
                    self._take_event(Event(line, event.name, mark), unfinished and number == len(event.lines))
        elif isinstance(value, dict):
            self._take_object(value, event)
        elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            for item in value:
                self._take_object(item, event)
        elif is_error_name(event.name):
            text = data.decode("utf-8", "replace") if value is BROKEN else as_text(value)
            self._fail(ApiError(message=text, raw=text))
        elif value is BROKEN:
            self._take_several(data, event, unfinished)
        elif value is not None:
            self._note_malformed(data.decode("utf-8", "replace"))

    def _take_several(self, data: bytes, event: Event, unfinished: bool) -> None:
        """JSON texts that nothing separates, one that was cut off or that is none."""
        values, rest = json_texts(data, TEXTS_IN_EVENT)
        for value in values:
            if isinstance(value, dict):
                self._take_object(value, event)
        if rest.strip() == "[DONE]":
            self._end()
        elif rest and not unfinished:
            self._note_malformed(rest)

    def _note_malformed(self, text: str) -> None:
        if not self.done_seen:
            self.malformed_events += 1
            self.body_head = self.body_head or text[:BODY_HEAD_CHARS]

    def _take_object(self, obj: dict[str, Any], event: Event) -> None:
        choices = choices_of(obj)
        failed = api_error(obj) if event.name is None else named_error(obj, event.name)
        self._fail(failed)
        is_chunk = "choices" in obj or "usage" in obj or str(obj.get("object")).startswith("chat.completion")
        self.chat_chunks += is_chunk and (failed is None or bool(choices))
        self.other_events += not is_chunk and failed is None
        usages = [obj.get("usage"), get(obj.get("x_groq"), "usage"), *(choice.get("usage") for choice in choices)]
        found = []
        for number, choice in enumerate(choices if not self.done_seen else []):
            self._fail(api_error({"error": choice.get("error")}))
            index = choice.get("index")
            text = self._add_delta(
                index if isinstance(index, int) else number,
                loose_delta(choice, whole=len(self.marks) == self._message_chunks),
                loose_reason(choice.get("finish_reason")),
                event.mark,
            )
            if text is not None:
                found.append(text)
        self._message_chunks += bool(found) and not any(choice.get("delta") for choice in choices)
        self._add_chunk(found, next(filter(None, usages), None), event.mark)

    def _fail(self, error: ApiError | None) -> None:
        self.error = self.error or error

    # ---- the whole ----

    def _read_body(self, body: bytes) -> None:
        """A body that is no event stream, or what of a stream was no event."""
        text = body.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        if not text:
            return
        if self.chat_chunks or self.done_seen:
            self.malformed_events += any(not _is_field(line) for line in body.splitlines())
        else:
            self.is_html = _is_html(text, self._content_type)
            self.body_head = self.body_head or text[:BODY_HEAD_CHARS]
        for line in body.splitlines():
            if line.startswith(_ERROR_FIELD):
                with contextlib.suppress(RecursionError):
                    self._take_error_field(line.removeprefix(_ERROR_FIELD).strip())
        begin = _JSON_LINE.search(text) if text[0] != "<" else None
        value, rest = first_json(text[begin.start() :]) if begin else (BROKEN, "")
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, dict):
            with contextlib.suppress(RecursionError):
                self._read_whole(value)
            self.done_seen = self.done_seen or "[DONE]" in rest

    def _take_error_field(self, data: bytes) -> None:
        """`error: …` where `data: …` should be: older llama.cpp servers."""
        value = loads(data)
        if isinstance(value, dict):
            self._fail(api_error(value, bare=True))
        elif data:
            self._fail(ApiError(message=data.decode("utf-8", "replace")))

    def _read_whole(self, obj: dict[str, Any]) -> None:
        """One JSON object instead of a stream: an answer, or an error."""
        choices = choices_of(obj)
        if any(choice.get("message") or choice.get("text") for choice in choices):
            if not self.marks:
                self._take_whole(obj)
            return
        self._fail(api_error(obj, bare=True))
        for choice in choices:
            self._fail(api_error({"error": choice.get("error")}))
        chunk = self.chat_chunks or any(choice.get("delta") for choice in choices)
        if "choices" in obj and self.error is None and not chunk:
            self._take_whole(obj)  # an answer without any output

    def _take_whole(self, obj: dict[str, Any]) -> None:
        self.streamed = False
        self._take_object(obj, Event(b"", None, 0))
        self.marks, self.chunk_texts, self._told = array.array("q"), [], None
        self.output_bytes = 0
        self.first_answer_mark = None  # nobody saw it arrive

    def fold(self) -> None:
        """Hold what has come of a long answer in little memory; changes nothing else."""
        for pieces in self._choices.values():
            pieces.fold()

    @property
    def chunk_marks(self) -> list[int]:
        return self.marks.tolist()

    @property
    def gaps(self) -> list[int]:
        """Between neighbouring marks; of a closed answer."""
        return self.measure_gaps()

    def measure_gaps(self, breathe: Breathe = hold_breath) -> list[int]:
        """`gaps`, which are measured once."""
        if self._gaps is None:
            found: list[int] = []
            for marks in parts(self.marks.tolist(), breathe, shared=1):
                found.extend(map(operator.sub, marks[1:], marks))
            self._gaps = found
        return self._gaps

    @property
    def running_tokens(self) -> list[int | None]:
        return [None] * len(self.marks) if self._told is None else self._told

    @property
    def comments(self) -> int:
        return self._body.comments

    @property
    def compressed(self) -> bool:
        return self._body.compressed

    @property
    def unreadable(self) -> str | None:
        return self._body.unreadable

    @property
    def has_output(self) -> bool:
        """Whether anything was generated, streamed or not."""
        return bool(self.marks) or any(pieces.has_output for pieces in self._choices.values())

    @property
    def text(self) -> str:
        """The visible answer; of several choices, the first."""
        return clean("".join(self._first_choice().content))

    @property
    def texts(self) -> dict[int, str]:
        """The visible answer of each choice, by its index."""
        return {index: clean("".join(self._choices[index].content)) for index in sorted(self._choices)}

    @property
    def reasoning_text(self) -> str:
        return clean("".join(self._first_choice().reasoning))

    @property
    def refusal(self) -> str:
        return clean("".join(self._first_choice().refusal))

    @property
    def tool_arguments(self) -> str:
        """The arguments of all tool calls, call by call."""
        return clean("".join("".join(parts) for parts in self._first_choice().arguments.values()))

    @property
    def finish_reason(self) -> str | None:
        """As sent; of several choices, one that was aborted, else the first."""
        if len(self._choices) == 1:
            (only,) = self._choices.values()
            return only.finish_reason
        reasons = [self._choices[index].finish_reason for index in sorted(self._choices)]
        told = [reason for reason in reasons if reason is not None]
        return next((reason for reason in told if is_abort(reason)), told[0] if told else None)

    @property
    def finished(self) -> bool:
        """Whether every choice has told its finish_reason."""
        return bool(self._choices) and all(pieces.finish_reason is not None for pieces in self._choices.values())

    @property
    def aborted(self) -> bool:
        """Whether the engine gave up, by its own finish_reason."""
        return self.finish_reason is not None and is_abort(self.finish_reason)

    @property
    def replacement_chars(self) -> int:
        """U+FFFD in what was generated: characters that the server cut in two, or bytes that are no UTF-8."""
        texts = ("".join([*pieces.content, "\n", *pieces.reasoning]) for pieces in self._choices.values())
        return sum(clean(text).count(REPLACEMENT) for text in texts)

    @property
    def chunk_tokens(self) -> list[int] | None:
        """Tokens that each output chunk brought; None where the server does not tell, or several choices mix."""
        if len(self._choices) > 1:
            return None
        return (
            None
            if self._told is None
            else chunk_tokens(self._told, self.usage.completion_tokens if self.usage else None)
        )

    def _first_choice(self) -> Pieces:
        return self._choices[min(self._choices)] if self._choices else Pieces()


def _is_field(line: bytes) -> bool:
    """Whether a stray line has the shape of a field that we do not know: the grammar says to ignore it."""
    name = line.split(b":", 1)[0]
    return not line.strip() or name.replace(b"-", b"").replace(b"_", b"").isalpha()


def _is_html(text: str, content_type: str) -> bool:
    head = text[:2048].lower()
    tags = ("<!doctype html", "<html", "<head", "<body", "<title", "<center", "<h1")
    return head.startswith(tags) or (head.startswith("<") and ("html" in content_type or any(t in head for t in tags)))
