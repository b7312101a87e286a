"""JSON from servers that send any type anywhere: reading that never fails."""

import contextlib
import json
import re
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode

_read_value = json.JSONDecoder(strict=False).raw_decode
_BETWEEN = re.compile(r"\s*(?:data:)?\s*")

BROKEN = object()  # no JSON


def loads(data: bytes) -> Any:
    """JSON, or BROKEN. Invalid UTF-8 is replaced; raw control characters and lone surrogates are let through."""
    try:
        return _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(data.decode("utf-8", "replace").removeprefix("\ufeff"), strict=False)
    except (ValueError, RecursionError):
        return BROKEN


def first_json(text: str) -> tuple[Any, str]:
    """(the first JSON value, what follows it), or (BROKEN, "")."""
    if text[:1] not in "{[":
        return BROKEN, ""
    try:
        value, end = _read_value(text)
    except (ValueError, RecursionError):
        return BROKEN, ""
    return value, text[end:]


def json_texts(data: bytes, most: int) -> tuple[list[Any], str]:
    """(up to `most` JSON values that `data` begins with, what follows them). Between two of them may be "data:"."""
    values: list[Any] = []
    text, at = data.decode("utf-8", "replace"), 0
    with contextlib.suppress(ValueError, RecursionError):
        while at < len(text) and len(values) < most:
            value, at = _read_value(text, at)
            values.append(value)
            at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]  # it matches anywhere
    return values, text[at:]


def get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def count(told: Any, *names: str) -> int | None:
    """A count under the first of `names` that holds one; numbers as text and 12.0 count, -1 and null do not."""
    for name in names:
        value = get(told, name)
        if isinstance(value, str) and value.isdecimal() and len(value) < 16:
            return int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15:
            return int(value)
    return None


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None or isinstance(value, bool) else str(value)


def joined(value: Any) -> str:
    """The text in a string, a part, or a list of parts."""
    if isinstance(value, list):
        return "".join(map(joined, value))
    if isinstance(value, dict):
        return next((joined(value[key]) for key in ("text", "thinking", "content", "summary") if value.get(key)), "")
    return as_text(value)


def byte_count(texts: list[str]) -> int:
    """Length of `texts` together, in UTF-8."""
    return len("".join(texts).encode("utf-8", "surrogatepass"))


def clean(text: str) -> str:
    """Surrogate halves put together, or replaced where one is alone: the text can be written anywhere."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
