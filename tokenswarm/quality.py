"""A fixed set of prompts and what a server answered: speed must not be bought with wrong answers.

A set is JSONL, one prompt a line:
{"id": "capital", "prompt": "…", "max_tokens": 48, "exact": "Paris", "regex": "(?i)paris", "json": true, "json_schema": {…}}
`id` and `prompt` (or `messages`) are needed; all else is optional. The answers are kept in the run folder with their
prompts, so that two runs can be compared without the file.
"""

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tokenswarm.quality_schema import SchemaError, checker
from tokenswarm.record import ErrorClass, Outcome
from tokenswarm.usage_error import UsageError

BUILT_IN = "default"  # stands for the set that comes along
BUILT_IN_FILE = Path(__file__).with_name("quality_prompts.jsonl")
MAX_TOKENS = 64
MOST_PROMPTS = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QualityPrompt:
    """One prompt and what is expected of its answer; None where nothing is."""

    id: str
    messages: list[dict[str, str]]
    max_tokens: int = MAX_TOKENS
    exact: str | None = None  # the answer, white space at its ends aside
    regex: str | None = None  # found somewhere in the answer
    json: bool = False  # the answer is to be JSON
    json_schema: dict[str, Any] | None = None  # and of this form


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QualityAnswer:
    """What came back: one line of the run's file."""

    prompt: QualityPrompt
    request_id: str
    outcome: Outcome
    error_class: ErrorClass | None = None
    finish_reason: str | None = None
    output_tokens: int | None = None
    refusal: bool = False  # the server itself marked it as one
    text: str = ""


_FIELDS = {"id", "prompt", "messages", "max_tokens", "exact", "regex", "json", "json_schema"}


def read_prompts(path: Path) -> list[QualityPrompt]:
    """The set in `path`. Raises UsageError naming the line that is wrong."""
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # not splitlines: a text may hold U+2028
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise UsageError(f"--quality: {path} cannot be read: {why}") from None
    prompts = [prompt_from(line, f"{path}, line {n}") for n, line in enumerate(lines, 1) if line.strip()]
    if not prompts or len(prompts) > MOST_PROMPTS:
        raise UsageError(f"--quality: {path} holds {len(prompts)} prompts; 1 to {MOST_PROMPTS} can be asked")
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise UsageError(f"--quality: {path}: the id '{prompt.id}' stands there twice; ids tell prompts apart")
        seen.add(prompt.id)
    return prompts


def prompt_from(line: str, where: str) -> QualityPrompt:
    """The prompt that one line says. Raises UsageError."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--quality: {where} is no JSON ({error})") from None
    if not isinstance(given, dict):
        raise UsageError(f'--quality: {where}: an object like {{"id": "a", "prompt": "…"}} was expected')
    unknown = sorted(set(given) - _FIELDS)
    if unknown:
        raise UsageError(f"--quality: {where}: unknown {', '.join(unknown)}; known are {', '.join(sorted(_FIELDS))}")
    for name, wanted in (("id", str), ("exact", str), ("regex", str), ("json", bool), ("json_schema", dict)):
        if given.get(name) is not None and not isinstance(given[name], wanted):
            raise UsageError(f"--quality: {where}: {name} must be {_called(wanted)}, not {given[name]!r}")
    if not given.get("id"):
        raise UsageError(f"--quality: {where}: the id is missing")
    limit = given.get("max_tokens", MAX_TOKENS)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise UsageError(f"--quality: {where}: max_tokens must be a whole number of 1 or more, not {limit!r}")
    _check_expectations(given, where)
    return QualityPrompt(
        id=given["id"],
        messages=_messages(given, where),
        max_tokens=limit,
        exact=given.get("exact"),
        regex=given.get("regex"),
        json=bool(given.get("json")) or given.get("json_schema") is not None,
        json_schema=given.get("json_schema"),
    )


def _check_expectations(given: Mapping[str, Any], where: str) -> None:
    try:
        re.compile(given.get("regex") or "")
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"--quality: {where}: the regex cannot be read ({error})") from None
    if given.get("json_schema") is None:
        return
    try:
        checker(given["json_schema"])
    except SchemaError as error:
        raise UsageError(f"--quality: {where}: the json_schema cannot be read ({error})") from None


def _called(kind: type) -> str:
    return {str: "a text", bool: "true or false", dict: "an object"}[kind]


def _messages(given: Mapping[str, Any], where: str) -> list[dict[str, str]]:
    prompt, messages = given.get("prompt"), given.get("messages")
    if isinstance(prompt, str) and prompt and messages is None:
        return [{"role": "user", "content": prompt}]
    well_formed = isinstance(messages, list) and all(
        isinstance(one, dict) and isinstance(one.get("role"), str) and isinstance(one.get("content"), str)
        for one in messages
    )
    if prompt is None and messages and well_formed:
        return list(messages)
    raise UsageError(f"--quality: {where}: either prompt (a text) or messages (each with role and content) is needed")


def prompts_of(option: str) -> list[QualityPrompt]:
    """The set that `--quality` names: the built-in one or a file. Raises UsageError."""
    return read_prompts(BUILT_IN_FILE if option == BUILT_IN else Path(option))


def to_line(answer: QualityAnswer) -> str:
    return json.dumps(dataclasses.asdict(answer), ensure_ascii=False) + "\n"


def answer_from(plain: Mapping[str, Any]) -> QualityAnswer:
    """The inverse of `to_line` after JSON. Raises KeyError, TypeError or ValueError where it is none."""
    given = dict(plain)
    return QualityAnswer(
        **given
        | {
            "prompt": QualityPrompt(**given["prompt"]),
            "outcome": Outcome(given["outcome"]),
            "error_class": None if given.get("error_class") is None else ErrorClass(given["error_class"]),
        }
    )


def lines(answers: Iterable[QualityAnswer]) -> str:
    return "".join(map(to_line, answers))
