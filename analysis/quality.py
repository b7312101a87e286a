"""Answers to the fixed prompts → figures. The set is all there is: no sampling error, so no interval either."""

import difflib
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from analysis import quality_metrics as of
from analysis.gate_errors import NoEvidence
from analysis.quality_checks import has_expectation, is_as_expected, is_empty, is_refusal, is_valid_json
from analysis.summary import LENGTH_FINISH
from tokenswarm.quality import QualityAnswer, QualityPrompt, answer_from
from tokenswarm.runfolder import QUALITY

MOST_WORDS = 2000  # compared of an answer: the comparison grows with the square
Answers = dict[str, QualityAnswer]  # by the prompt's id


def read(folder: Path) -> Answers:
    """The answers in a run's folder; none where it had no quality phase. Raises NoEvidence where the file is damaged."""
    path = folder / QUALITY
    if not path.is_file():
        return {}
    lines = path.read_bytes().split(b"\n")  # only these end a line: an answer may hold U+2028
    if not lines[-1].strip():
        lines.pop()
    return from_plain((_loads(line, f"{path}, line {n}") for n, line in enumerate(lines, 1)), str(path))


def _loads(line: bytes, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NoEvidence(f"{where}: no JSON ({error}); make the run again.") from None


def from_plain(plain: Iterable[Any], where: str) -> Answers:
    try:
        answers = [answer_from(one) for one in plain]
    except (KeyError, TypeError, ValueError) as error:
        raise NoEvidence(f"{where}: an answer to a prompt was expected ({error!r}); make the run again.") from None
    found = {answer.prompt.id: answer for answer in answers}
    if len(found) < len(answers):
        raise NoEvidence(f"{where}: two answers to one prompt; make the run again.")
    return found


def prompts(answers: Answers) -> dict[str, QualityPrompt]:
    return {name: answer.prompt for name, answer in answers.items()}


def figures(answers: Answers, references: Sequence[Answers]) -> dict[str, float]:
    """Name → figure. `references`: the baseline's runs; of several answers to a prompt the likest counts.

    NaN where nothing was asked that would show it.
    """
    all_of = list(answers.values())
    n = len(all_of)
    if not n:
        return dict.fromkeys(of.QUALITY, math.nan)
    json_asked = [one for one in all_of if one.prompt.json or one.prompt.json_schema is not None]
    expected = [one for one in all_of if has_expectation(one.prompt)]
    own, theirs = _lengths(answers, references)
    return {
        of.EXACT.name: _mean(_best(one, references, _same) for one in all_of),
        of.SIMILARITY.name: _mean(_best(one, references, similarity) for one in all_of),
        of.VALID_JSON.name: _mean(is_valid_json(one) for one in json_asked),
        of.AS_EXPECTED.name: _mean(is_as_expected(one) for one in expected),
        of.LENGTH.name: own / theirs if theirs else math.nan,
        of.TRUNCATED.name: _mean(one.finish_reason == LENGTH_FINISH for one in all_of),
        of.EMPTY.name: _mean(is_empty(one) for one in all_of),
        of.REFUSED.name: _mean(is_refusal(one) for one in all_of),
    }


def of_baseline(runs: Sequence[Answers]) -> dict[str, float]:
    """The baseline's own figures: the mean over its runs, each seen against the others (alone, it is like itself)."""
    found = [figures(run, [*runs[:i], *runs[i + 1 :]] or [run]) for i, run in enumerate(runs)]
    return {name: _mean(one[name] for one in found) for name in of.QUALITY}


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return float(sum(known)) / len(known) if known else math.nan


def _best(answer: QualityAnswer, references: Sequence[Answers], likeness: Any) -> float:
    there = [run[answer.prompt.id] for run in references if answer.prompt.id in run]
    return max((likeness(answer.text, one.text) for one in there), default=math.nan)


def _same(left: str, right: str) -> float:
    return float(left.strip() == right.strip())


def similarity(left: str, right: str) -> float:
    """0 to 1, by words; two empty answers are alike."""
    words = left.split()[:MOST_WORDS], right.split()[:MOST_WORDS]
    return difflib.SequenceMatcher(None, *words, autojunk=False).ratio()


def _lengths(answers: Answers, references: Sequence[Answers]) -> tuple[float, float]:
    own = sum(len(one.text) for one in answers.values())
    return own, _mean(sum(len(one.text) for one in run.values()) for run in references)
