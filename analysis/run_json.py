"""What `run.json` must be like for the analysis to read it: whoever edited it by hand is told what is wrong where."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from analysis.errors import RunError
from analysis.printable import printable
from tokenswarm.runfolder import RUN

OBJECTS = ("scenario", "slos", "conditions", "options", "clients", "versions")
TEXTS = ("run_id", "state", "model", "target", "host")
INSTANTS = ("started_at", "ended_at")
LAST_EPOCH_S = 1e11  # the year 5138: what is later is no instant in seconds


def checked(info: dict[str, Any]) -> dict[str, Any]:
    """`info`, its texts without what steers a terminal or reverses the writing. Unknown is null, or not there.

    Raises RunError naming the first value that cannot be used.
    """
    for name, value, expected in _wrong(info):
        raise RunError(f"{RUN}: expected {name} to be {expected}, found {json.dumps(value)[:60]}; mend the file.")
    return {printable(name): _printable(value) for name, value in info.items()}


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(one) for one in value]
    if isinstance(value, dict):
        return {printable(name): _printable(one) for name, one in value.items()}
    return value


def _wrong(info: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    yield from ((name, info[name], "an object") for name in OBJECTS if not isinstance(_of(info, name), Mapping))
    yield from ((name, info[name], "a text") for name in TEXTS if not isinstance(info.get(name) or "", str))
    for name in INSTANTS:
        value = info.get(name)
        if value is not None and not (_is_number(value) and abs(value) < LAST_EPOCH_S):
            yield name, value, "epoch seconds"
    scenario = _of(info, "scenario")
    numbers = {f"scenario.{name}": scenario.get(name) for name in ("step_time_s", "warmup_s")}
    numbers |= {f"slos.{name}": limit for name, limit in _of(info, "slos").items()}
    for worker, client in _of(info, "clients").items():
        if not isinstance(client or {}, Mapping):
            yield f"clients.{worker}", client, "an object"
        else:
            numbers[f"clients.{worker}.clock_offset_s"] = (client or {}).get("clock_offset_s")
    yield from (
        (name, value, "a number") for name, value in numbers.items() if value is not None and not _is_number(value)
    )
    steps = scenario.get("steps") or []
    if not isinstance(steps, list) or not all(_is_number(users) and users == int(users) for users in steps):
        yield "scenario.steps", steps, "a list of whole numbers"


def _of(info: Mapping[str, Any], name: str) -> Any:
    value = info.get(name)
    return {} if value is None else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
