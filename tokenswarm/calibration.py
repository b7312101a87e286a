"""What a unit of our prose costs in tokens on the server under test, so that no tokenizer runs inside the load.

Three sources, the best one there is: the model's own tokenizer, the server's `usage.prompt_tokens` for a few requests,
or an estimate, which says that it is one. Master and workers share it as a plain dict inside the options.
"""

import dataclasses
import enum
import os
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tokenswarm.text.prose import Language, Prose, measure, words

Message = dict[str, str]

_SIZES = {Language.ENGLISH: (12, 60, 132), Language.CHINESE: (6, 24, 48)}
_CHECK_SIZES = {Language.ENGLISH: (12, 33, 128, 500), Language.CHINESE: (6, 17, 64, 250)}
_FEWEST_WORDS = 24  # a list is not narrowed below this: texts would begin alike


class Source(enum.StrEnum):
    TOKENIZER = "tokenizer"
    SERVER = "server"
    ESTIMATE = "estimate"


class TokenizerError(Exception):
    """The tokenizer cannot be had. Its text is a sentence for a person."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """Tokens of a text in one language: `fixed_tokens` + units * `unit_tokens`. Fixed: chat template, instruction."""

    fixed_tokens: float
    unit_tokens: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Rates of both languages, and how they were found."""

    source: Source
    english: Rate
    chinese: Rate
    left_out: tuple[str, ...] = ()  # words that cost more or less than others with this tokenizer
    residual_tokens: float | None = None  # largest error over the texts it was made from

    def rate(self, language: Language) -> Rate:
        return self.english if language is Language.ENGLISH else self.chinese

    def to_dict(self) -> dict[str, Any]:
        """Plain values (JSON, msgpack)."""
        return {**dataclasses.asdict(self), "source": str(self.source), "left_out": list(self.left_out)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Calibration":
        """The inverse of `to_dict`."""
        return cls(
            source=Source(values["source"]),
            english=Rate(**values["english"]),
            chinese=Rate(**values["chinese"]),
            left_out=tuple(values["left_out"]),
            residual_tokens=values["residual_tokens"],
        )


# A chat template of 8 tokens, and a vocabulary of 100 to 200 thousand tokens as current models have.
ESTIMATE = Calibration(source=Source.ESTIMATE, english=Rate(14.0, 1.0), chinese=Rate(14.0, 2.2))


def _texts(sizes: Mapping[Language, tuple[int, ...]], left_out: Iterable[str], seed: int) -> list[list[Message]]:
    left_out = frozenset(left_out)
    requests = []
    for language, lengths in sizes.items():
        prose = Prose(language, seed, left_out)
        for number, units in enumerate(lengths):
            text = prose.text(units, number=number, mark=seed + units * 0x9E3779B97F4A7C15, place=number * 101)
            requests.append([{"role": "user", "content": text}])
    return requests


def calibration_requests(seed: int = 0) -> list[list[Message]]:
    """The messages of a handful of requests to send before the load, in both languages; ask for one token each."""
    return _texts(_SIZES, (), seed)


def _line(points: Sequence[tuple[int, int]]) -> Rate | None:
    """The line through (units, tokens) by the median of slopes, so that one odd point does not bend it; else None."""
    slopes = [(t2 - t1) / (u2 - u1) for i, (u1, t1) in enumerate(points) for u2, t2 in points[i + 1 :] if u1 != u2]
    if not slopes or statistics.median(slopes) <= 0:
        return None
    slope = statistics.median(slopes)
    return Rate(statistics.median(tokens - slope * units for units, tokens in points), slope)


def fit(
    measured: Iterable[tuple[list[Message], int | None]],
    *,
    source: Source = Source.SERVER,
    left_out: tuple[str, ...] = (),
) -> Calibration:
    """The calibration from requests of `calibration_requests` and the `usage.prompt_tokens` each was answered with.

    None counts as unanswered. ESTIMATE, and nothing in between, where no line can be drawn: the server reports no
    usage, or the same for every length. Where only the Chinese requests fail, their rate alone is the estimate's.
    """
    points: dict[Language, list[tuple[int, int]]] = {language: [] for language in Language}
    for messages, tokens in measured:
        language, units = measure(messages[-1]["content"])
        if tokens is not None:
            points[language].append((units, tokens))
    english = _line(points[Language.ENGLISH])
    if english is None:
        return ESTIMATE
    chinese = _line(points[Language.CHINESE])
    rates = {Language.ENGLISH: english, Language.CHINESE: chinese}
    errors = [
        abs(tokens - rate.fixed_tokens - rate.unit_tokens * units)
        for language, rate in rates.items()
        if rate is not None
        for units, tokens in points[language]
    ]
    return Calibration(
        source=source,
        english=english,
        chinese=chinese or ESTIMATE.chinese,
        left_out=left_out,
        residual_tokens=round(max(errors), 3),
    )


def from_tokenizer(path_or_hub_id: str) -> Calibration:
    """The calibration from a tokenizer's folder or hub id. Takes a second or two: before the load, in one process.

    With the tokenizer's chat template, where it has one; without, the server's own template is not counted.
    Raises TokenizerError if `transformers` is not there or cannot load it.
    """
    try:
        tokenizer = load_tokenizer(path_or_hub_id)
    except TokenizerError as error:
        raise TokenizerError(
            f"{error} Without a tokenizer, lengths are calibrated on the server's own usage."
        ) from error

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    def count_messages(messages: list[Message]) -> int:
        if getattr(tokenizer, "chat_template", None):
            ids = tokenizer.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False)
            return len(ids)
        return len(tokenizer.encode(messages[-1]["content"]))

    left_out = _uneven(count)
    texts = _texts(_CHECK_SIZES, left_out, seed=0)
    return fit([(text, count_messages(text)) for text in texts], source=Source.TOKENIZER, left_out=left_out)


def load_tokenizer(path_or_hub_id: str) -> Any:
    """The tokenizer of a folder or hub id. Raises TokenizerError."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # it warns that there is no PyTorch: none is needed
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise TokenizerError(
            f"A tokenizer needs the package `transformers`, which cannot be imported: {error}."
        ) from error
    try:
        return AutoTokenizer.from_pretrained(path_or_hub_id)
    except Exception as error:  # the library raises OSError, ValueError, KeyError, and those of the hub's client
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TokenizerError(
            f"The tokenizer {path_or_hub_id!r} cannot be loaded: {said} "
            "Give the path of a folder with tokenizer.json, or a model's hub id while the hub can be reached."
        ) from error


def _uneven(count: Callable[[str], int]) -> tuple[str, ...]:
    """The words of our lists that cost another number of tokens than most of their list."""
    frames = {"openers": "{}", "nouns": " {}", "verbs": " {}", "adjectives": " {}", "chinese_words": "、{}"}
    left_out: set[str] = set()
    for name, frame in frames.items():
        start = "" if name == "openers" else "x"
        cost = {word: count(start + frame.format(word)) for word in words(name)}
        usual, kept = Counter(cost.values()).most_common(1)[0]
        if kept >= _FEWEST_WORDS:
            left_out |= {word for word in words(name) if cost[word] != usual}
    return tuple(sorted(left_out))
