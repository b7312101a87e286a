"""What the model will say to a prompt: decided at arrival from the seed and the request alone, so that it repeats.

The order and load in which requests come have no influence: two runs with the same prompts get the same answers.
"""

import dataclasses
import math
import random

import msgspec

from simulator.tokens import END
from simulator.words import CHINESE, ENGLISH


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LengthSettings:
    """Natural lengths of answers in tokens: log-normal."""

    median_tokens: int = 128
    sigma: float = 0.5  # of the logarithm

    def __post_init__(self) -> None:
        if self.median_tokens < 1:
            raise ValueError(f"median_tokens must be at least 1, not {self.median_tokens}")
        if self.sigma < 0:
            raise ValueError(f"sigma must not be negative, not {self.sigma}")


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedAnswer:
    """`texts` of all generated tokens, and why the last one is the last.

    An answer that stops by itself ends with the end-of-message token: it counts as generated and has no text.
    """

    texts: list[str]
    finish_reason: str

    @property
    def tokens(self) -> list[str]:
        """As `simulator.tokens` would see them in the next prompt of a conversation."""
        return [text.strip() or END for text in self.texts]


def _natural_tokens(draw: random.Random, lengths: LengthSettings, min_tokens: int) -> int:
    drawn = round(draw.lognormvariate(math.log(lengths.median_tokens), lengths.sigma))
    return max(1, min_tokens, drawn) + 1  # the end-of-message token is one more


def plan_answer(
    key: str, lengths: LengthSettings, *, max_tokens: int, min_tokens: int, ignore_eos: bool, cjk: bool
) -> PlannedAnswer:
    """The answer to the request that `key` names: at most `max_tokens` tokens, the end-of-message token included."""
    draw = random.Random(key)
    natural = _natural_tokens(draw, lengths, min_tokens)
    vocabulary = CHINESE if cjk else ENGLISH
    if ignore_eos or natural > max_tokens:
        return PlannedAnswer(draw.choices(vocabulary, k=max_tokens), "length")
    return PlannedAnswer([*draw.choices(vocabulary, k=natural - 1), ""], "stop")


_encoded: dict[str, bytes] = {text: msgspec.json.encode(text) for text in [*ENGLISH, *CHINESE, ""]}


def json_text(texts: list[str]) -> bytes:
    """The JSON string of `texts` joined; ready-made for the usual single token."""
    return _encoded[texts[0]] if len(texts) == 1 else msgspec.json.encode("".join(texts))
