"""Before the load: is this a server that can be measured, and how does it want to be asked?

What a server refuses is found out here, once, and kept for the whole run; under load the same refusal would look like a
server that fails every request.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence

from tokenswarm.client import ChatClient, ChatSettings
from tokenswarm.complaint import PreflightError, explain
from tokenswarm.digest import Reading
from tokenswarm.errors import unsupported_param
from tokenswarm.listing import choose_model, list_models
from tokenswarm.record import Caution, ErrorClass, Outcome, RequestRecord

__all__ = ["Findings", "PreflightError", "adapt", "ask_once", "preflight"]

ATTEMPTS = 4  # each drops or renames one field that the server refused
PROBE_TOKENS = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the preflight learned: `settings` to ask with, and what the server says of itself."""

    settings: ChatSettings
    models: tuple[str, ...]  # as listed; empty where the server lists none
    reports_usage: bool
    probe: RequestRecord
    notes: tuple[str, ...] = ()


def adapt(settings: ChatSettings, refused: str | None) -> ChatSettings | None:
    """`settings` without the field that the server refused, or asking it by its other name; None if that is not ours.

    `refused`: the field's name, or the server's words where it did not name one apart.
    """
    if refused is None:
        return None
    if ("stream_options" in refused or "include_usage" in refused) and settings.include_usage:
        return dataclasses.replace(settings, include_usage=False)
    if re.search(rf"\b{settings.max_tokens_field}\b", refused):
        other = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[
            settings.max_tokens_field
        ]
        return dataclasses.replace(settings, max_tokens_field=other)
    return None


def preflight(
    settings: ChatSettings,
    *,
    on_record: Callable[[Reading], None] = lambda _: None,
    worker: str = "preflight",
) -> Findings:
    """Probe every target with `settings` (its `model` may be empty). Every chat request is told to `on_record`.

    What is learned of the first target holds for all: the others are asked the same way once, and must answer as it does.
    Needs gevent's hub of this process. Raises PreflightError, and ConnectError where the route itself is wrong.
    """
    first, *others = (dataclasses.replace(settings, targets=(target,)) for target in settings.targets)
    findings = _probe(first, on_record, worker)
    learned = findings.settings
    for number, other in enumerate(others, 2):
        one = dataclasses.replace(learned, targets=other.targets)
        reading, way = ask_once(one, on_record, worker, f"{number}-1")
        _judge(reading, one, (), way)
    return dataclasses.replace(findings, settings=dataclasses.replace(learned, targets=settings.targets))


def _probe(settings: ChatSettings, on_record: Callable[[Reading], None], worker: str) -> Findings:
    """The findings on the only target of `settings`."""
    target = settings.targets[0]
    client = ChatClient(settings, worker=worker)
    try:
        listing = list_models(client, target)
    finally:
        client.close()
    models = listing.names
    settings = dataclasses.replace(settings, model=choose_model(settings.model or None, listing, target))
    notes: list[str] = []
    for attempt in range(1, ATTEMPTS + 1):
        reading, way = ask_once(settings, on_record, worker, str(attempt))
        adapted = _adapted(reading, settings)
        if adapted is None:
            break
        notes.append(adapted[1])
        settings = adapted[0]
    record = _judge(reading, settings, models, way)
    if record.outcome is Outcome.EMPTY:
        notes.append("the server answered the first request without any output")
    reports_usage = record.output_tokens is not None
    if not reports_usage:
        notes.append("the server reports no usage: tokens are not counted by it (give TOKENIZER=… to count them)")
    return Findings(settings=settings, models=models, reports_usage=reports_usage, probe=record, notes=tuple(notes))


def _adapted(reading: Reading, settings: ChatSettings) -> tuple[ChatSettings, str] | None:
    """How to ask after this refusal, and the note that says so; None where nothing was refused that can be left out."""
    record = reading.record
    assert record is not None
    if record.error_class is not ErrorClass.UNSUPPORTED_PARAMETER:
        return None
    refused = unsupported_param(reading.answer.error if reading.answer is not None else None)
    adapted = adapt(settings, refused) or adapt(settings, record.detail if refused is None else None)
    if adapted is None:
        return None
    if adapted.include_usage != settings.include_usage:
        return adapted, "the server refuses stream_options: usage is not asked for"
    return adapted, f"the server refuses {settings.max_tokens_field}: the limit is sent as {adapted.max_tokens_field}"


def _judge(reading: Reading, settings: ChatSettings, models: Sequence[str], way: str | None) -> RequestRecord:
    """The record of an answer that can be measured. Raises PreflightError."""
    record = reading.record
    assert record is not None
    if record.outcome not in (Outcome.OK, Outcome.EMPTY):
        raise PreflightError(explain(record, settings, models, way))
    if Caution.NOT_STREAMED in record.warnings:
        raise PreflightError(
            f"{settings.targets[0].chat_url} answers without streaming although stream=true was asked: no TTFT or ITL can be "
            "measured. Switch streaming on in the server or in the gateway before it."
        )
    return record


def ask_once(
    settings: ChatSettings, on_record: Callable[[Reading], None], worker: str, attempt: str
) -> tuple[Reading, str | None]:
    """One short request, recorded, and the proxy that it went through; blocks until the record is there."""
    client = ChatClient(settings, worker=worker, on_record=on_record, id_prefix=f"{worker}-{attempt}")
    try:
        reading = client.chat(
            [{"role": "user", "content": "Say hello."}],
            user=worker,
            task="preflight",
            max_tokens=PROBE_TOKENS,
            keep_text=True,
            await_record=True,
        )
        return reading, client.way
    finally:
        client.close()
