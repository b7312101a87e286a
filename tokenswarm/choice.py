"""One choice of an answer: what its deltas carry, and what they add up to."""

import dataclasses
import json
import re
from typing import Any

import msgspec

from tokenswarm.loose_json import as_text, get, joined

MANY_CHUNKS = 3  # so many chunks, each repeating all text before it, are no coincidence
REPEATED_TEXT_CHARS = 4  # a last chunk that repeats a shorter answer may be a token
MANY_PIECES = 512  # each takes ten times the memory of its text

_ABORT_WORDS = frozenset(
    {
        *("abort", "aborted", "cancel", "canceled", "cancelled", "error", "failed", "failure", "interrupted"),
        *("timeout", "timed", "insufficient"),
    }
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NO_REASON = frozenset({"null", "none"})  # null as text


class Delta(msgspec.Struct, gc=False):
    """What one chunk may bring. The usual fields have their types; whatever else came is looked at with care."""

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


RARE = ("reasoning_details", "thinking", "tool_calls", "function_call", "refusal", "audio", "images")


@dataclasses.dataclass(slots=True)
class Pieces:
    """What one choice has brought so far, in pieces."""

    content: list[str] = dataclasses.field(default_factory=list)
    reasoning: list[str] = dataclasses.field(default_factory=list)
    refusal: list[str] = dataclasses.field(default_factory=list)
    arguments: dict[Any, list[str]] = dataclasses.field(default_factory=dict)  # per tool call
    finish_reason: str | None = None
    answered: bool = False  # something of the visible answer has come
    folded: bool = False  # `content` begins with many pieces in one; they differed, and did not grow on each other

    def take(self, delta: Delta, finish_reason: str | None) -> str | None:
        """Adds a delta. Returns what it carried, of any kind, or None if that is no output."""
        if finish_reason and finish_reason.lower() not in _NO_REASON:
            self.finish_reason = finish_reason
        text = delta.content or None
        if text is not None:
            self.content.append(text)
            self.answered = True
        reasoning = delta.reasoning_content or delta.reasoning  # the same under two names, where both are sent
        if reasoning:
            self.reasoning.append(reasoning)
            text = reasoning + text if text else reasoning
        if (
            delta.tool_calls is None
            and delta.refusal is None
            and delta.reasoning_details is None
            and delta.function_call is None
            and delta.audio is None
            and delta.thinking is None
            and delta.images is None
        ):
            return text
        return self._take_rest(delta, text, bool(reasoning))

    def _take_rest(self, delta: Delta, text: str | None, reasoned: bool) -> str | None:
        """The rarer kinds of output."""
        found = [] if text is None else [text]
        if not reasoned:
            thought = joined(delta.thinking) or joined(delta.reasoning_details)
            if thought:
                self.reasoning.append(thought)
                found.append(thought)
        calls = delta.tool_calls if isinstance(delta.tool_calls, list) else [delta.tool_calls]
        if delta.function_call:
            calls = [*calls, {"function": delta.function_call}]
        for number, call in enumerate(calls):
            said = self._take_call(call, number)
            if said is not None:
                found.append(said)
        refusal = joined(delta.refusal)
        if refusal:
            self.refusal.append(refusal)
        audio = get(delta.audio, "transcript") or get(delta.audio, "data")
        spoken = [part for part in (refusal, as_text(audio), as_text(delta.images or None)) if part]
        self.answered = self.answered or bool(spoken)
        found += spoken
        return "".join(found) if found else None

    def _take_call(self, call: Any, number: int) -> str | None:
        if not isinstance(call, dict):
            return None
        function = call.get("function")
        name, arguments = get(function, "name"), get(function, "arguments")
        if isinstance(arguments, dict | list):  # sent as an object, not as text
            arguments = json.dumps(arguments, ensure_ascii=False) if arguments else None
        if not (call.get("id") or name or arguments):
            return None
        key = call.get("index", number)
        parts = self.arguments.setdefault(key if isinstance(key, int | str) else number, [])
        if arguments:
            parts.append(as_text(arguments))
        return as_text(name) + as_text(arguments)

    @property
    def has_output(self) -> bool:
        return bool(self.content or self.reasoning or self.refusal or self.arguments or self.answered)

    def fold(self) -> None:
        """Hold many pieces as one string, so that a long answer takes little more memory than its text. Lists stay
        the same objects.
        """
        if len(self.reasoning) > MANY_PIECES:
            self.reasoning[:] = ["".join(self.reasoning)]
        if len(self.content) > MANY_PIECES and (self.folded or not _grow(self.content[:-1])):
            self.content[:-1] = ["".join(self.content[:-1])]
            self.folded = True

    def drop_repeats(self) -> bool:
        """True: the server sent all text so far in every chunk, or the whole answer again in the last; now once."""
        texts = self.content
        if len(texts) < MANY_CHUNKS and not self.folded:
            return False
        if not self.folded and _grow(texts) and len(set(texts)) >= MANY_CHUNKS:
            self.content = [texts[-1]]
            return True
        if len(texts[-1]) < len(texts) - 1:  # shorter than all before it, of which none is empty
            return False
        before = "".join(texts[:-1])
        differed = self.folded or len(set(texts[:-1])) > 1
        if texts[-1] == before and len(before.strip()) >= REPEATED_TEXT_CHARS and differed:
            self.content = texts[:-1]
            return True
        return False


def _grow(texts: list[str]) -> bool:
    """Whether each begins with the one before it."""
    return all(map(str.startswith, texts[1:], texts))


def choices_of(obj: dict[str, Any]) -> list[dict[str, Any]]:
    """The choices of a chunk or a whole answer of any shape."""
    choices = obj.get("choices")
    if isinstance(choices, dict):
        return [choices]
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def loose_delta(choice: dict[str, Any], whole: bool) -> Delta:
    """The delta of a choice of any shape: `delta`, legacy `text`, or (if `whole`) a complete `message`."""
    source = choice.get("delta")
    if isinstance(source, str):
        source = {"content": source}
    if not isinstance(source, dict) or not source:
        source = choice.get("message") if whole else None
        source = source if isinstance(source, dict) else {}
    content = source.get("content")
    thought = ""
    if isinstance(content, list):  # Mistral: parts, of which some are thinking
        thinking = [part for part in content if get(part, "type") == "thinking"]
        thought = joined(thinking)
        content = [part for part in content if get(part, "type") != "thinking"]
    return Delta(
        content=joined(content) or joined(choice.get("text")),
        reasoning=thought or joined(source.get("reasoning_content")) or joined(source.get("reasoning")),
        **{name: source.get(name) for name in RARE},
    )


def loose_reason(told: Any) -> str | None:
    """A finish_reason of any type; None where it says nothing. Some engines' own is an object with a type."""
    return as_text(get(told, "type") or get(told, "reason") or told or None) or None


def is_abort(finish_reason: str) -> bool:
    """Whether a finish_reason says that the engine gave up; it may be a sentence or an enum's name."""
    return not _ABORT_WORDS.isdisjoint(word.lower() for word in _WORD.findall(finish_reason.split(":")[0]))
