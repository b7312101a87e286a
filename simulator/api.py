"""What a chat request may say, and the errors that answer a wrong one, in the words and shapes of OpenAI and vLLM."""

import dataclasses
from typing import Annotated

import msgspec

from simulator.faults import Fault

_Positive = Annotated[int, msgspec.Meta(ge=1)]
_NotNegative = Annotated[int, msgspec.Meta(ge=0)]


@dataclasses.dataclass
class ApiError(Exception):
    """An answer with an error status; `retry_after_s` becomes its header."""

    status: int
    message: str
    type: str
    param: str | None = None
    retry_after_s: int | None = None

    @property
    def body(self) -> dict[str, object]:
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.status}}


class Part(msgspec.Struct):
    type: str
    text: str | None = None


class Message(msgspec.Struct):
    role: str
    content: str | list[Part] | None = None


class StreamOptions(msgspec.Struct):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class ChatRequest(msgspec.Struct):
    """The fields that have an effect; all others are ignored, as vLLM does."""

    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: _Positive | None = None
    max_completion_tokens: _Positive | None = None
    min_tokens: _NotNegative = 0
    ignore_eos: bool = False
    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = None
    seed: int | None = None
    n: int | None = None
    fault: Fault | list[Fault] | None = None

    @property
    def faults(self) -> list[Fault]:
        if self.fault is None:
            return []
        return self.fault if isinstance(self.fault, list) else [self.fault]

    def texts(self) -> list[tuple[str, str]]:
        """(role, text) of each message. Raises ApiError for parts that are not text."""
        return [(message.role, _text(message.content)) for message in self.messages]


def _text(content: str | list[Part] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.type != "text" or part.text is None:
            raise bad_request(f"content parts of type {part.type!r} are not supported, only text", "messages")
    return "\n".join(part.text or "" for part in content)


def bad_request(message: str, param: str | None = None) -> ApiError:
    return ApiError(400, message, "BadRequestError", param)


def busy() -> ApiError:
    """What vLLM says when its queue is full."""
    message = (
        "The engine is currently busy and cannot accept new requests. "
        "Please try again later or on a different instance."
    )
    return ApiError(503, message, "Service Unavailable")


def fault_error(code: int, retry_after_s: int | None) -> ApiError:
    """The error that a fault asked for, under the type that goes with its code."""
    types = {401: "authentication_error", 403: "permission_error", 404: "NotFoundError", 429: "rate_limit_error"}
    kind = types.get(code, "BadRequestError" if code < 500 else "InternalServerError")
    if code == 429 and retry_after_s is None:
        retry_after_s = 1
    return ApiError(code, f"Fault on order: status {code}", kind, retry_after_s=retry_after_s)


def parse(body: bytes, model: str) -> ChatRequest:
    """The request in `body`. Raises ApiError where it is wrong in itself or asks for another model."""
    try:
        request = msgspec.json.decode(body, type=ChatRequest)
    except msgspec.ValidationError as error:
        raise bad_request(str(error)) from None
    except msgspec.DecodeError as error:
        raise bad_request(f"JSON decode error: {error}") from None
    except UnicodeDecodeError as error:
        raise bad_request(f"The body is not UTF-8: {error}") from None
    if request.model is not None and request.model != model:
        raise ApiError(404, f"The model `{request.model}` does not exist.", "NotFoundError", "model")
    if request.n not in (None, 1):
        raise bad_request(f"n must be 1, got {request.n}.", "n")
    if request.stream_options is not None and not request.stream:
        raise bad_request("Stream options can only be defined when `stream=True`.", "stream_options")
    return request


def output_limit(request: ChatRequest, prompt_tokens: int, max_model_len: int) -> int:
    """The most tokens that the answer may have. Raises ApiError when prompt and answer do not fit the context."""
    asked = request.max_completion_tokens if request.max_completion_tokens is not None else request.max_tokens
    context = f"This model's maximum context length is {max_model_len} tokens. However, "
    if prompt_tokens >= max_model_len:
        raise bad_request(
            f"{context}your request has {prompt_tokens} input tokens. Please reduce the length of the input messages.",
            "input_tokens",
        )
    limit = max_model_len - prompt_tokens if asked is None else asked
    if prompt_tokens + limit > max_model_len:
        raise bad_request(
            f"{context}you requested {limit} output tokens and your prompt contains {prompt_tokens} input tokens, "
            f"for a total of {prompt_tokens + limit} tokens. Please reduce the length of the input prompt or the "
            "number of requested output tokens.",
            "input_tokens",
        )
    if request.min_tokens > limit:
        raise bad_request(
            f"min_tokens must be less than or equal to max_tokens={limit}, got {request.min_tokens}.", "min_tokens"
        )
    return limit
