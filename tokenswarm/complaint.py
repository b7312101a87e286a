"""Why a target cannot be measured, in sentences for a person: what was found, and what to do."""

from collections.abc import Sequence

from tokenswarm.client import ChatSettings
from tokenswarm.record import ErrorClass, RequestRecord, one_line
from tokenswarm.target import Target
from tokenswarm.usage_error import UsageError

LISTED = 20
PROXY_WANTS_CREDENTIALS = 407
BASE = "Give the API's base URL, like http://host:8000/v1."


class PreflightError(UsageError):
    """The load would measure nothing. One or a few sentences: what was found, and what to do."""


def said(words: str | None) -> str:
    return f' It said: "{words}".' if words else ""


def unreachable(target: Target, why: object) -> str:
    return f"The target cannot be reached: {why}. Check that the server runs and that TARGET={target.address} is its address."


def refused_key(target: Target, settings: ChatSettings, status: int | None, way: str | None = None) -> str:
    """The sentence for 401 and 403. `way`: the proxy that may have said it in the server's place."""
    code = f" (HTTP {status})" if status else ""
    through = f" The request went through the proxy {way}, which may have said this." if way else ""
    if settings.key_command is not None:
        return (
            f"The key that --api-key-command printed was refused by {target.address}{code}. "
            f"Run the command by hand.{through}"
        )
    if settings.api_key:
        return (
            f"The API key in OPENAI_API_KEY was refused by {target.address}{code}. "
            f"Set OPENAI_API_KEY to a key that it accepts and start again.{through}"
        )
    return f"The server at {target.address} wants an API key{code}. Set OPENAI_API_KEY to one and start again.{through}"


def proxy_wants_credentials(proxy: str) -> str:
    return f"The proxy {proxy} wants a user and password (HTTP 407): write them into its address in HTTP_PROXY."


def name_list(models: Sequence[str]) -> str:
    names = "\n".join(f"  {one_line(name)}" for name in models[:LISTED])
    return names + (f"\n  … and {len(models) - LISTED} more" if len(models) > LISTED else "")


def explain(record: RequestRecord, settings: ChatSettings, models: Sequence[str] = (), way: str | None = None) -> str:
    """Why the first request was no success, for a person. `models`: those listed; `way`: the proxy on the way, if any."""
    target, words = settings.targets[0], said(record.detail)
    status = f" (HTTP {record.http_status})" if record.http_status else ""
    if record.http_status == PROXY_WANTS_CREDENTIALS and way is not None:
        return proxy_wants_credentials(way)
    match record.error_class:
        case ErrorClass.AUTH:
            return refused_key(target, settings, record.http_status, way) + words
        case ErrorClass.MODEL_NOT_FOUND:
            serves = f" It serves:\n{name_list(models)}" if models else ""
            return (
                f"The server does not serve the model '{settings.model}'{status}.{words} "
                f"Set MODEL (--model) to one it serves.{serves}"
            )
        case ErrorClass.CONNECT_FAILED:
            return unreachable(target, record.detail)
        case ErrorClass.MALFORMED_STREAM:
            return (
                f"{target.chat_url} is no OpenAI-compatible server: it answered a chat completion{status} with something "
                f"else.{words} {BASE}"
            )
        case ErrorClass.HTTP_ERROR if record.http_status in (404, 405):
            return f"There are no chat completions at {target.chat_url}{status}.{words} {BASE}"
        case ErrorClass.UNSUPPORTED_PARAMETER:
            return f"The server refuses a field of the request{status}.{words} Check --extra-body."
        case ErrorClass.RATE_LIMITED | ErrorClass.OVERLOADED:
            return (
                f"{target.chat_url} refuses the very first request{status}, as too much for it.{words} "
                "Wait until it is free, or raise the limit of this key; it was asked once."
            )
        case ErrorClass.TIMEOUT_FIRST_TOKEN:
            return f"The server gave no token: {record.detail}. Raise --first-token-timeout if it is that slow."
    return (
        f"The first request to {target.chat_url} failed: {record.error_class or record.outcome}{status}.{words} "
        "A load would measure this failure only; mend it first, or look closer with: "
        f"python -m tokenswarm.probe {target.address} --model {settings.model} --no-preflight"
    )
