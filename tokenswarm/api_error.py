"""What a server's error object says, in any of the dialects in use."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from tokenswarm.loose_json import as_text, get

WORDS_LIMIT = 1000  # characters of a message that are searched: some servers echo the whole prompt behind their words


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


_MESSAGE_KEYS = (
    *("message", "msg", "detail", "error_msg", "error_message"),
    *("status_msg", "faultstring", "description", "reason"),
)
_CODE_KEYS = ("code", "status_code", "statusCode", "http_status_code", "error_code", "status", "errcode")
_FAILED_STATUS = re.compile(r"err|fail|excep|invalid|denied|exhaust|unavail|abort|time[d_ -]*out|not.found", re.I)
_KIND_KEYS = ("object", "type", "event", "error_type")
_ERROR_NAME = re.compile(r"(^|[^A-Za-z])(?i:error|failed|failure)$|[a-z](Error|Failure)$|(?i:exception)$")
_NOTHING = ("", "0", "none", "null", "ok", "success")


def is_error_name(name: str | None) -> bool:
    """Whether a type, or an event's name, is that of an error: `error`, `server_error`, `throttlingException`."""
    return name is not None and _ERROR_NAME.search(name) is not None


def api_error(obj: Mapping[str, Any], bare: bool = False) -> ApiError | None:
    """The error that a JSON object reports, or None. `bare`: it stands where an answer should; a message says enough.

    Dialects: `{"error": {…}}`, `{"error": "…"}`, `{"object": "error", …}`, `{"type": "error", …}`, `{"detail": …}`,
    `{"errors": [{…}]}`, `{"message": …, "code": …}` and kin.
    """
    for key in ("error", "errors", "fault", "Error"):
        if not _is_nothing(obj.get(key)):
            return _from_value(obj[key], obj)
    base, groq = obj.get("base_resp"), get(obj.get("x_groq"), "error")
    if isinstance(base, dict) and base.get("status_code"):  # MiniMax: status_code 0 is success
        return _from_value(base, obj)
    if groq:
        return _from_value(groq, {})
    if obj.get("choices"):
        return None
    told = obj.get("detail") or any(is_error_name(as_text(obj.get(key))) for key in _KIND_KEYS)
    # a chat message is none of an error
    has_message = any(obj.get(key) and get(obj[key], "role") is None for key in _MESSAGE_KEYS)
    failed = obj.get("success") is False or any(_is_failure(key, obj.get(key)) for key in _CODE_KEYS)
    if told or (has_message and (bare or failed)):
        return _from_value(obj, obj)
    return None


def named_error(obj: Mapping[str, Any], name: str) -> ApiError | None:
    """The error of an event with this name: where the name is that of an error, anything but a chunk is one."""
    if not is_error_name(name):
        return api_error(obj)
    found = api_error(obj, bare=True)
    if found is None and not obj.get("choices"):
        found = ApiError(raw=str(obj)[: 4 * WORDS_LIMIT])
    if found is not None and found.type is None and name.lower() != "error":
        found = dataclasses.replace(found, type=name)
    return found


def _is_nothing(error: Any) -> bool:
    """Whether the value of an error field says that there is none: `null`, `{"code": 0, "message": ""}`."""
    if isinstance(error, dict):
        return all(map(_is_nothing, error.values()))
    if isinstance(error, list):
        return all(map(_is_nothing, error))
    return not error or (isinstance(error, str) and error.lower() in _NOTHING)


def _is_failure(key: str, code: Any) -> bool:
    """Whether a code beside a message is that of a failure; a `status` in words may be that of a queue."""
    if _is_nothing(code) or isinstance(code, bool):
        return False
    text = as_text(code)
    if text.isdecimal():
        return not 200 <= int(text[:9]) < 300
    return key != "status" or _FAILED_STATUS.search(text) is not None


def _from_value(value: Any, whole: Mapping[str, Any]) -> ApiError:
    if isinstance(value, list) and value:
        value = value[0]
    raw = str(value)[: 4 * WORDS_LIMIT]
    outer_type = as_text(whole.get("error_type")) or None
    outer_code = next((as_text(whole[key]) for key in _CODE_KEYS if whole.get(key)), None)
    if not isinstance(value, dict):
        message = next((as_text(whole[key]) for key in _MESSAGE_KEYS if whole.get(key)), None)
        return ApiError(" ".join(filter(None, (as_text(value), message))), outer_type, outer_code, None, raw)
    inner = value.get("error")
    if isinstance(inner, dict) and inner is not value:
        return _from_value(inner, value)
    found = next((value[key] for key in _MESSAGE_KEYS if value.get(key)), None)
    message, param = _message(found)
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):  # OpenRouter: the upstream's own words
        message = f"{message or ''} {metadata['raw']}".strip()
    kind = as_text(value.get("type")) or outer_type
    code = next((as_text(value[key]) for key in _CODE_KEYS if value.get(key)), None) or outer_code
    return ApiError(message, kind if kind != "error" else None, code, as_text(value.get("param")) or param, raw)


def _message(found: Any) -> tuple[str | None, str | None]:
    """(message, parameter) from a message that may be text, FastAPI's list of findings or an object."""
    if isinstance(found, dict):
        for key in ("detail", *_MESSAGE_KEYS, "error"):
            if found.get(key):
                message, param = _message(found[key])
                return " ".join(filter(None, (as_text(found.get("type")), as_text(found.get("code")), message))), param
        return str(found), None
    if isinstance(found, list) and found and isinstance(found[0], dict):
        first = found[0]
        loc = first.get("loc")
        name = str(loc[-1]) if isinstance(loc, list) and loc else None
        words = [as_text(first.get(key)) for key in ("type", "msg", "message")]
        return " ".join(filter(None, (*words, f"({name})" if name else None))), name
    return as_text(found) or None, None


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
