"""Prose of a given length in units, from word lists, without two texts that begin alike.

A unit is what costs about the same number of tokens everywhere: in English a word with its space, or a full stop; in
Chinese a word with the mark after it. A text is: an opening (its words tell requests and runs apart), sentences, where
asked some English words to fill up to a length, and an instruction that invites a long answer.
"""

import enum
import functools
import random
from collections.abc import Collection
from importlib import resources


class Language(enum.StrEnum):
    ENGLISH = "english"
    CHINESE = "chinese"


OPENING_UNITS = {Language.ENGLISH: 7, Language.CHINESE: 4}
_CLOSING = {Language.ENGLISH: " Continue this story at length.", Language.CHINESE: "请续写长文。"}
_SENTENCE_UNITS = {Language.ENGLISH: 12, Language.CHINESE: 8}
_RING = 1009  # different sentences; prime, so that every stride visits all of them
_STRIDES = (1, 2, 3, 5, 7, 11)
_PATTERNS = (  # eleven words and the full stop
    "the {} {} {} the {} {} near the {} {}.",
    "the {} {} {} a {} {} and the {} {}.",
    "a {} {} {} the {} {} for the {} {}.",
)


@functools.cache
def words(name: str) -> tuple[str, ...]:
    """The word list `name`: "openers", "nouns", "verbs", "adjectives" or "chinese_words"."""
    return tuple(resources.files(__package__).joinpath(f"{name}.txt").read_text(encoding="utf-8").split())


def _kept(name: str, left_out: Collection[str]) -> list[str]:
    return [word for word in words(name) if word not in left_out]


class Prose:
    """Texts of one language. The same `seed` and `left_out` words give the same sentences in every process."""

    def __init__(self, language: Language, seed: int, left_out: Collection[str] = ()) -> None:
        self.language = language
        pick = random.Random(f"{seed} {language}")
        self._nouns = _kept("nouns", left_out)
        if language is Language.ENGLISH:
            self._openers = _kept("openers", left_out)
            self._adjectives = _kept("adjectives", left_out)
            self._verbs = _kept("verbs", left_out)
            self._ring = [self._english_sentence(pick) for _ in range(_RING)]
        else:
            self._openers = _kept("chinese_words", left_out)
            self._ring = ["、".join(pick.sample(self._openers, _SENTENCE_UNITS[language])) + "。" for _ in range(_RING)]

    def _english_sentence(self, pick: random.Random) -> str:
        adjectives, nouns, verb = (
            pick.sample(self._adjectives, 3),
            pick.sample(self._nouns, 3),
            pick.choice(self._verbs),
        )
        first, second, third = zip(adjectives, nouns, strict=True)
        return " " + pick.choice(_PATTERNS).format(*first, verb, *second, *third)

    def _opening(self, number: int, mark: int) -> str:
        openers = self._openers
        first = openers[number % len(openers)]  # neighbours in time differ in their very first token
        if self.language is Language.CHINESE:
            mark, second = divmod(mark, len(openers))
            mark, third = divmod(mark, len(openers))
            return f"{first}、{openers[second]}、{openers[third]}、{openers[mark % len(openers)]}。"
        adjectives, nouns, verbs = self._adjectives, self._nouns, self._verbs
        mark, a = divmod(mark, len(adjectives))
        mark, b = divmod(mark, len(nouns))
        mark, c = divmod(mark, len(verbs))
        mark, d = divmod(mark, len(adjectives))
        return f"{first} {adjectives[a]} {nouns[b]} {verbs[c]} {adjectives[d]} {nouns[mark % len(nouns)]}."

    def text(self, units: int, *, number: int, mark: int, place: int, fill: int = 0) -> str:
        """A text of `units` units (OPENING_UNITS at least) and `fill` English words more.

        `number` chooses the first word, `mark` (64 random bits) the rest of the opening, `place` the sentences.
        """
        count, rest = divmod(units - OPENING_UNITS[self.language], _SENTENCE_UNITS[self.language])
        stride = _STRIDES[place % len(_STRIDES)]
        start = place % _RING
        ring = self._ring
        body = [ring[at % _RING] for at in range(start, start + (count + 1) * stride, stride)]
        body[-1] = self._start_of(body[-1], rest)
        filling = [" " + self._nouns[(place + i) % len(self._nouns)] for i in range(fill)]
        return "".join([self._opening(number, mark), *body, *filling, _CLOSING[self.language]])

    def _start_of(self, sentence: str, units: int) -> str:
        if units == 0:
            return ""
        if self.language is Language.ENGLISH:
            return " " + " ".join(sentence.split()[:units])
        return "、".join(sentence.split("、")[:units]) + "。"


def measure(text: str) -> tuple[Language, int]:
    """Language and units of a text that `Prose.text` made without filling."""
    for language, closing in _CLOSING.items():
        if text.endswith(closing):
            body = text.removesuffix(closing)
            if language is Language.ENGLISH:
                return language, len(body.split()) + body.count(".")
            return language, body.count("、") + body.count("。")
    raise ValueError("this text was not made by Prose")
