"""The recorded cases, and what is expected of each answer, in the project's own words."""

import json
import pathlib
from typing import Any

from tokenswarm.record import ErrorClass, Outcome

PATH = pathlib.Path(__file__).with_name("cases.jsonl")
CASES: list[dict[str, Any]] = [json.loads(line) for line in PATH.read_text("utf-8").split("\n") if line]


def answers(case: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(what is sent, what is expected) for each answer of a case."""
    sent, expected = case["input"], case["expected"]
    if "responses" in sent:
        return list(zip(sent["responses"], expected["responses"], strict=True))
    return [(sent, expected)]


def outcome(expected: dict[str, Any]) -> tuple[Outcome, ErrorClass | None]:
    """The recordings say success or failure; `empty` and `not_streamed` are told by their class there."""
    error_class = expected["error_class"]
    if error_class == "empty_response":
        return Outcome.EMPTY, ErrorClass.EMPTY_RESPONSE
    if expected["outcome"] == "success":
        return Outcome.OK, None
    return Outcome.FAILED, ErrorClass(error_class)
