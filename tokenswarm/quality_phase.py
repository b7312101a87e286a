"""The quality phase: a fixed set of prompts, temperature 0, one after the other, before the load."""

import dataclasses
from collections.abc import Callable, Sequence

from tokenswarm.client import ChatClient, ChatSettings
from tokenswarm.digest import Reading
from tokenswarm.quality import QualityAnswer, QualityPrompt

TASK = "quality"
LENGTHENING = ("ignore_eos", "min_tokens")  # fields that make an answer longer than it is
GREEDY = {"temperature": 0}


def settings_for(settings: ChatSettings) -> ChatSettings:
    """The run's own settings, but greedy and with answers that end where they end."""
    kept = {name: value for name, value in settings.extra_body.items() if name not in LENGTHENING}
    return dataclasses.replace(settings, extra_body=kept | GREEDY)


def ask_all(
    settings: ChatSettings, prompts: Sequence[QualityPrompt], on_record: Callable[[Reading], None]
) -> list[QualityAnswer]:
    """An answer for each prompt, in their order; a failure is an answer too. Every request is told to `on_record`.

    One at a time: with others beside it in a batch, even a greedy answer may differ from run to run.
    """
    client = ChatClient(settings_for(settings), worker="preflight", on_record=on_record, id_prefix="preflight-quality")
    try:
        return [_ask(client, prompt) for prompt in prompts]
    finally:
        client.close()


def _ask(client: ChatClient, prompt: QualityPrompt) -> QualityAnswer:
    reading = client.chat(
        prompt.messages,
        user=TASK,
        task=TASK,
        max_tokens=prompt.max_tokens,
        prompt_id=prompt.id,
        keep_text=True,
        await_record=True,
    )
    record, answer = reading.record, reading.answer
    assert record is not None
    return QualityAnswer(
        prompt=prompt,
        request_id=record.request_id,
        outcome=record.outcome,
        error_class=record.error_class,
        finish_reason=record.finish_reason,
        output_tokens=record.output_tokens,
        refusal=bool(answer is not None and answer.refusal),
        text="" if answer is None else answer.text,
    )
