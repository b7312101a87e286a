"""Before the load: is this a server that can be measured, and how does it want to be asked?

What a server refuses is found out here, once, and kept for the whole run; under load the same refusal would look like a
server that fails every request.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import openai

from tokenswarm.client import ChatClient, ChatSettings
from tokenswarm.digest import Reading
from tokenswarm.errors import unsupported_param
from tokenswarm.record import Caution, ErrorClass, Outcome, RequestRecord
from tokenswarm.target import Target
from tokenswarm.usage_error import UsageError

ATTEMPTS = 4  # each drops or renames one field that the server refused
PROBE_TOKENS = 8
MODELS_LIMIT_S = 30.0
LISTED = 20


class PreflightError(UsageError):
    """The load would measure nothing. One or a few sentences: what was found, and what to do."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the preflight learned: `settings` to ask with, and what the server says of itself."""

    settings: ChatSettings
    models: tuple[str, ...]  # as listed; empty where the server lists none
    reports_usage: bool
    probe: RequestRecord
    notes: tuple[str, ...] = ()


def list_models(client: ChatClient, target: Target) -> list[dict[str, Any]]:
    """The server's own list, as JSON objects; empty where it has none. Raises PreflightError where it is no LLM server."""
    where = f"{target.base_url}/models"
    try:
        page = client.openai.with_options(timeout=MODELS_LIMIT_S).models.with_raw_response.list()
        listed = page.http_response.json()
    except openai.AuthenticationError:
        raise PreflightError(refused_key(target, client.settings.api_key)) from None
    except openai.PermissionDeniedError:
        raise PreflightError(refused_key(target, client.settings.api_key)) from None
    except openai.APITimeoutError:
        raise PreflightError(
            f"{where} did not answer within {MODELS_LIMIT_S:g} s. Is the server still loading its model?"
        ) from None
    except openai.APIConnectionError as error:
        raise PreflightError(
            f"The target cannot be reached: {error.__cause__ or error}. "
            f"Check that the server runs and that TARGET={target.base_url} is its address."
        ) from None
    except openai.APIStatusError:
        return []  # some servers have no list; the request that follows tells more
    except ValueError:
        raise PreflightError(
            f"{where} is no OpenAI-compatible server: it answered with something that is not JSON. "
            "Give the address of the API, like http://host:8000/v1."
        ) from None
    data = listed.get("data") if isinstance(listed, dict) else listed
    return [item for item in data if isinstance(item, dict) and "id" in item] if isinstance(data, list) else []


def refused_key(target: Target, api_key: str | None) -> str:
    given = "The API key in OPENAI_API_KEY was refused" if api_key else "The server wants an API key"
    return f"{given} by {target.base_url}. Set OPENAI_API_KEY to a key that it accepts and start again."


def choose_model(asked: str | None, models: list[str], target: Target) -> str:
    """The asked one, else the only one. Raises PreflightError where that is not decided."""
    if asked:
        return asked
    if len(models) == 1:
        return models[0]
    if not models:
        raise PreflightError(
            f"{target.base_url} lists no models at {target.base_url}/models. Name the one to measure with MODEL=…"
        )
    names = "\n".join(f"  {name}" for name in models[:LISTED])
    more = f"\n  … and {len(models) - LISTED} more" if len(models) > LISTED else ""
    raise PreflightError(
        f"The server serves {len(models)} models; name the one to measure with MODEL=…:\n{names}{more}"
    )


def adapt(settings: ChatSettings, refused: str | None) -> ChatSettings | None:
    """`settings` without the field that the server refused, or asking it by its other name; None if that is not ours."""
    if refused is None:
        return None
    if "stream_options" in refused or "include_usage" in refused:
        return dataclasses.replace(settings, include_usage=False) if settings.include_usage else None
    if refused == "max_tokens" and settings.max_tokens_field == "max_tokens":
        return dataclasses.replace(settings, max_tokens_field="max_completion_tokens")
    if refused == "max_completion_tokens" and settings.max_tokens_field == "max_completion_tokens":
        return dataclasses.replace(settings, max_tokens_field="max_tokens")
    return None


def explain(record: RequestRecord, settings: ChatSettings) -> str:
    """Why the first request was no success, for a person."""
    target, said = settings.targets[0], f' It said: "{record.detail}".' if record.detail else ""
    status = f" (HTTP {record.http_status})" if record.http_status else ""
    match record.error_class:
        case ErrorClass.AUTH:
            return refused_key(target, settings.api_key) + said
        case ErrorClass.MODEL_NOT_FOUND:
            return f"The server does not serve the model '{settings.model}'{status}.{said} Set MODEL to one it serves."
        case ErrorClass.CONNECT_FAILED:
            return (
                f"The target cannot be reached: {record.detail}. Check that the server runs and that TARGET is right."
            )
        case ErrorClass.MALFORMED_STREAM:
            return (
                f"{target.chat_url} is no OpenAI-compatible server: it answered a chat completion{status} with something "
                f"else.{said} Give the address of the API, like http://host:8000/v1."
            )
        case ErrorClass.HTTP_ERROR if record.http_status in (404, 405):
            return (
                f"There are no chat completions at {target.chat_url}{status}.{said} "
                "Give the API's base URL, like http://host:8000/v1."
            )
        case ErrorClass.UNSUPPORTED_PARAMETER:
            return f"The server refuses a field of the request{status}.{said} Check --extra-body."
        case ErrorClass.TIMEOUT_FIRST_TOKEN:
            return f"The server gave no token: {record.detail}. Raise --first-token-timeout if it is that slow."
    return (
        f"The first request to {target.chat_url} failed: {record.error_class or record.outcome}{status}.{said} "
        "A load would measure this failure only; mend it first, or look closer with: "
        f"python -m tokenswarm.probe {target.base_url}"
    )


def preflight(
    settings: ChatSettings,
    *,
    on_record: Callable[[Reading], None] = lambda _: None,
    worker: str = "preflight",
) -> Findings:
    """Probe the first target with `settings` (its `model` may be empty). Every request is told to `on_record`.

    Needs gevent's hub of this process. Raises PreflightError, and ConnectError where the route itself is wrong.
    """
    target = settings.targets[0]
    client = ChatClient(settings, worker=worker)
    try:
        models = [str(item["id"]) for item in list_models(client, target)]
    finally:
        client.close()
    settings = dataclasses.replace(settings, model=choose_model(settings.model or None, models, target))
    notes: list[str] = []
    for attempt in range(1, ATTEMPTS + 1):
        reading = ask_once(settings, on_record, worker, attempt)
        record = reading.record
        assert record is not None
        if record.outcome in (Outcome.OK, Outcome.EMPTY):
            break
        error = reading.answer.error if reading.answer is not None else None
        refused = unsupported_param(error) if record.error_class is ErrorClass.UNSUPPORTED_PARAMETER else None
        adapted = adapt(settings, refused)
        if adapted is None:
            raise PreflightError(explain(record, settings))
        notes.append(f"the server refuses {refused}: it is left out or asked for by its other name")
        settings = adapted
    else:
        raise PreflightError(
            f"The server refused {ATTEMPTS} forms of a plain request; look at it with tokenswarm.probe."
        )
    if Caution.NOT_STREAMED in record.warnings:
        raise PreflightError(
            f"{target.chat_url} answers without streaming although stream=true was asked: no TTFT or ITL can be measured. "
            "Switch streaming on in the server or in the gateway before it."
        )
    if record.outcome is Outcome.EMPTY:
        notes.append("the server answered the first request without any output")
    reports_usage = record.output_tokens is not None
    if not reports_usage:
        notes.append("the server reports no usage: tokens are not counted by it (give TOKENIZER=… to count them)")
    return Findings(
        settings=settings, models=tuple(models), reports_usage=reports_usage, probe=record, notes=tuple(notes)
    )


def ask_once(settings: ChatSettings, on_record: Callable[[Reading], None], worker: str, attempt: int) -> Reading:
    """One short request, recorded; blocks until its record is there."""
    client = ChatClient(settings, worker=worker, on_record=on_record, id_prefix=f"{worker}-{attempt}")
    try:
        return client.chat(
            [{"role": "user", "content": "Say hello."}],
            user=worker,
            task="preflight",
            max_tokens=PROBE_TOKENS,
            keep_text=True,
            await_record=True,
        )
    finally:
        client.close()
