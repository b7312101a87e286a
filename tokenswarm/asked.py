"""What was asked of the server in one request: the part of its record that we know before sending."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    request_id: str
    worker: str
    user: str
    task: str
    conversation: str | None = None
    turn: int | None = None
    prompt_id: str | None = None
    scheduled_at: float | None = None  # epoch s
    max_tokens: int | None = None
    ignore_eos: bool = False
    expected_prompt_tokens: int | None = None
    prompt_words: int = 0  # a floor for the tokens of the prompt where nobody knows them
