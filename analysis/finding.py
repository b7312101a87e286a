"""What a finding is: a sentence for a person, its numbers for a program."""

import dataclasses
import enum
from collections.abc import Mapping

Number = float | str | None


class FindingKind(enum.StrEnum):
    """In the order in which they are told."""

    CAPACITY = "capacity"
    KNEE = "knee"
    PHASE = "phase"
    SCALING = "scaling"
    REPLICAS = "replicas"
    LAW = "law"
    COST = "cost"
    VERDICT = "verdict"  # of steps; where the verdicts stand beside the findings these are left away
    DISTRUST = "distrust"


class Severity(enum.StrEnum):
    INFO = "info"
    WARNING = "warning"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Numbers are in base units (s, tokens/s, shares); None is unknown."""

    kind: FindingKind
    text: str
    numbers: Mapping[str, Number]
    severity: Severity = Severity.INFO
