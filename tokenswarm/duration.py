"""Durations as people write them: 20s, 10m, 1h30m, 500ms, or a bare number of seconds."""

import re

from tokenswarm.usage_error import UsageError

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration_s(text: str) -> float:
    """Seconds. Raises UsageError for anything else, negative ones included."""
    compact = text.strip().lower().replace(" ", "")
    if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", compact):
        return float(compact)
    if not compact or _PART.sub("", compact):
        raise UsageError(f"'{text}' is no duration; write it like 20s, 10m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(compact))
