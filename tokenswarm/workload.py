"""The prompts of a load: every request its own, of the asked length in tokens, from a seed.

Nothing is tokenized here: a `Calibration` made before the load says what our words cost. Texts are put together from
sentences made at the start (some µs a prompt). The first words of a prompt come from the run, the seed, the worker and
the request's number, so no two prompts of a run begin alike, nor do those of two runs: a prefix cache finds nothing.
"""

import hashlib
import math
from typing import NamedTuple

from tokenswarm.calibration import Calibration, Source
from tokenswarm.text.prose import OPENING_UNITS, Language, Prose

_SHORT = {Language.ENGLISH: "en", Language.CHINESE: "zh"}


class Prompt(NamedTuple):
    """One request's prompt. `expected_tokens` is None where the calibration is only an estimate."""

    prompt_id: str
    messages: list[dict[str, str]]
    expected_tokens: int | None


def fewest_tokens(calibration: Calibration, language: Language) -> int:
    """The shortest prompt of a language: chat template, opening and instruction."""
    rate = calibration.rate(language)
    return math.ceil(rate.fixed_tokens + OPENING_UNITS[language] * rate.unit_tokens)


class Workload:
    """An endless series of prompts; the n-th depends on seed, worker_index and n (and, in its first words, on run_id).

    `chinese_share` is the share in force: 0.0 where a prompt of `prompt_tokens` has no room for the Chinese opening.
    Raises ValueError if it has no room for the English one either.
    """

    def __init__(
        self,
        *,
        seed: int,
        run_id: str,
        worker_index: int,
        prompt_tokens: int,
        calibration: Calibration,
        chinese_share: float = 0.1,
    ) -> None:
        fewest = fewest_tokens(calibration, Language.ENGLISH)
        if prompt_tokens < fewest:
            raise ValueError(
                f"Prompts of {prompt_tokens} tokens are too short: the chat template, words that tell requests apart "
                f"and an instruction take {fewest}. Ask for {fewest} or more."
            )
        if not 0.0 <= chinese_share <= 1.0:
            raise ValueError(f"The share of Chinese prompts is a number from 0 to 1, not {chinese_share}.")
        fits = prompt_tokens >= fewest_tokens(calibration, Language.CHINESE)
        self.chinese_share = chinese_share if fits else 0.0
        self._calibration = calibration
        self._prompt_tokens = prompt_tokens
        self._worker_index = worker_index
        left_out = frozenset(calibration.left_out)
        self._prose = {language: Prose(language, seed, left_out) for language in Language}
        self._size = {language: self._units_and_fill(language) for language in Language}
        self._places = hashlib.blake2b(f"{seed} {worker_index}".encode(), digest_size=8)
        self._marks = hashlib.blake2b(f"{run_id} {seed} {worker_index}".encode(), digest_size=8)
        self._first = _number(self._marks, -1)
        self._phase = _number(self._places, -1) / 2**64
        self._n = 0

    def _units_and_fill(self, language: Language) -> tuple[int, int, int]:
        """Units, English words to fill up, and the tokens that both come to."""
        rate, english = self._calibration.rate(language), self._calibration.english
        room = self._prompt_tokens - rate.fixed_tokens
        if language is Language.ENGLISH:
            units, fill = round(room / rate.unit_tokens), 0
        else:
            units = math.floor(room / rate.unit_tokens + 1e-6)
            fill = max(0, round((room - units * rate.unit_tokens) / english.unit_tokens))
        tokens = rate.fixed_tokens + units * rate.unit_tokens + fill * english.unit_tokens
        return units, fill, round(tokens)

    def next(self) -> Prompt:
        """The next prompt."""
        n, self._n = self._n, self._n + 1
        turn = n * self.chinese_share + self._phase
        language = Language.CHINESE if int(turn + self.chinese_share) > int(turn) else Language.ENGLISH
        units, fill, tokens = self._size[language]
        text = self._prose[language].text(
            units, number=self._first + n, mark=_number(self._marks, n), place=_number(self._places, n), fill=fill
        )
        expected = None if self._calibration.source is Source.ESTIMATE else tokens
        return Prompt(f"{self._worker_index}-{n}-{_SHORT[language]}", [{"role": "user", "content": text}], expected)


def _number(base: hashlib.blake2b, n: int) -> int:
    """64 bits that look random, from what `base` was given and `n`."""
    state = base.copy()
    state.update(n.to_bytes(8, "big", signed=True))
    return int.from_bytes(state.digest(), "big")
