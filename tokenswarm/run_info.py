"""What `run.json` says of a run."""

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenswarm.metrics import DEFINITIONS_VERSION
from tokenswarm.record import SCHEMA
from tokenswarm.redaction import redact, redact_text


class RunState(enum.StrEnum):
    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """What `run.json` says of a run, in the order in which it says it. Unknown is None."""

    run_id: str
    started_at: float  # epoch s
    ended_at: float | None = None
    state: RunState
    scenario: str
    steps: Sequence[int]  # users
    step_time_s: float
    warmup_s: float
    slos: Mapping[str, float] = dataclasses.field(default_factory=dict)
    target: str
    model: str | None
    conditions: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    seed: int | None = None
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    host: str | None = None
    cores: int | None = None
    clients: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)  # worker → `clients.client_info`


def run_info(info: RunInfo, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """The content of `run.json`. `secrets`: values (the API key) that must not be in it, wherever they stand."""
    secrets = tuple(secrets)
    return {
        "schema": SCHEMA,
        "definitions_version": DEFINITIONS_VERSION,
        "run_id": info.run_id,
        "started_at": info.started_at,
        "ended_at": info.ended_at,
        "state": info.state.value,
        "scenario": {
            "name": info.scenario,
            "steps": list(info.steps),
            "step_time_s": info.step_time_s,
            "warmup_s": info.warmup_s,
        },
        "slos": _sorted(info.slos),
        "target": redact_text(info.target, secrets),
        "model": info.model,
        "conditions": redact(_sorted(info.conditions), secrets),
        "options": redact(_sorted(info.options), secrets),
        "seed": info.seed,
        "versions": _sorted(info.versions),
        "host": info.host,
        "cores": info.cores,
        "clients": {worker: dict(info.clients[worker]) for worker in sorted(info.clients)},
    }


def _sorted(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in sorted(values)}
