"""What one answer to a fixed prompt shows: is it there, does it decline, is it JSON, is it what was expected?"""

import json
import re
from collections.abc import Callable
from typing import Any

from analysis.gate_errors import NoEvidence
from analysis.patience import OutOfPatience, at_most
from tokenswarm.quality import QualityAnswer, QualityPrompt
from tokenswarm.quality_schema import SchemaError, checker
from tokenswarm.record import Outcome

PATTERN_LIMIT_S = 2.0  # a pattern that needs longer for one answer would need for ever
FENCE = "```"
_REFUSALS = re.compile(
    r"^\W*(i'?m sorry|i am sorry|sorry,|i can'?t\b|i cannot|i am (?:not able|unable)|i'?m (?:not able|unable)|"
    r"i won'?t\b|as an ai\b|i'?m just an ai|es tut mir leid|ich kann (?:das|dir|ihnen) nicht|抱歉|对不起|我无法|我不能)",
    re.IGNORECASE,
)


def is_empty(answer: QualityAnswer) -> bool:
    return answer.outcome is not Outcome.OK or not answer.text.strip()


def is_refusal(answer: QualityAnswer) -> bool:
    """Marked by the server, or in the words that models decline with."""
    return answer.refusal or bool(_REFUSALS.match(answer.text))


def is_valid_json(answer: QualityAnswer) -> bool:
    """JSON, also inside a Markdown fence, and of the asked form. Raises NoEvidence where that cannot be told."""
    schema = answer.prompt.json_schema
    try:
        value = json.loads(unfenced(answer.text), parse_constant=_no_json)
    except (ValueError, RecursionError):
        return False
    if schema is None:
        return True
    try:
        is_of_form = checker(schema)
    except SchemaError as error:
        raise NoEvidence(f"The json_schema of the prompt '{answer.prompt.id}' cannot be read ({error}).") from None
    return _in_time(answer.prompt, "json_schema", lambda: is_of_form(value))


def _no_json(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def unfenced(text: str) -> str:
    """What stands inside the Markdown fence that is all of `text`, else `text`."""
    text = text.strip()
    first, newline, rest = text.partition("\n")
    mark, name = first[: len(FENCE)], first[len(FENCE) :].strip()
    is_fence = mark == FENCE and newline and rest.endswith(FENCE) and (not name or name.isalnum())
    return rest.removesuffix(FENCE) if is_fence else text


def _in_time(prompt: QualityPrompt, what: str, check: Callable[[], bool]) -> bool:
    """Raises NoEvidence where the pattern does not come to an end."""
    try:
        with at_most(PATTERN_LIMIT_S):
            return check()
    except OutOfPatience:
        raise NoEvidence(
            f"The {what} of the prompt '{prompt.id}' did not decide on its answer within {PATTERN_LIMIT_S:.0f} s: a pattern "
            "with a repetition inside a repetition, such as (a+)+, tries for ever; write it without."
        ) from None


def has_expectation(prompt: QualityPrompt) -> bool:
    return prompt.exact is not None or prompt.regex is not None or prompt.json_schema is not None


def is_as_expected(answer: QualityAnswer) -> bool:
    prompt = answer.prompt
    return (
        answer.outcome is Outcome.OK
        and (prompt.exact is None or answer.text.strip() == prompt.exact.strip())
        and (prompt.regex is None or _is_found(prompt, answer.text))
        and (prompt.json_schema is None or is_valid_json(answer))
    )


def _is_found(prompt: QualityPrompt, text: str) -> bool:
    return _in_time(prompt, "regex", lambda: re.search(prompt.regex or "", text, re.DOTALL) is not None)
