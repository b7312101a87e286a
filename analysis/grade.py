"""A verdict and its reason: the smallest thing that judging a step is made of."""

import enum
from collections.abc import Iterator


class Verdict(enum.StrEnum):
    """In order of severity."""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


Finding = tuple[Verdict, str]


def grade(value: float, limits: tuple[float, float], text: str) -> Iterator[Finding]:
    """One finding: suspect beyond the first of `limits`, invalid beyond the second; none where `value` is unknown."""
    if value > limits[1]:
        yield Verdict.INVALID, text
    elif value > limits[0]:
        yield Verdict.SUSPECT, text


def never_invalid(limits: tuple[float, float]) -> tuple[float, float]:
    """`limits` of what alone makes a step suspect at most."""
    return limits[0], float("inf")
