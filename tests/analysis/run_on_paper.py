"""Run folders made by hand: records in, files out, by the codec that the recorder uses."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenswarm.record import (
    ErrorClass,
    HealthRecord,
    Outcome,
    RequestRecord,
    Row,
    Stamp,
    StepRecord,
    TokensFrom,
    header,
    to_csv,
)
from tokenswarm.server_row import COLUMNS, FILE, ServerRow

T0 = 1_761_442_200.0  # epoch s; any instant will do


def ok(name: str, at_s: float, chunks_ms: Sequence[float], tokens: int | None = None, **more: Any) -> RequestRecord:
    """A request sent `at_s` after T0 whose chunks arrived `chunks_ms` after that; one token a chunk unless told."""
    times = tuple(round(ms * 1000) for ms in chunks_ms)
    known: dict[str, Any] = {
        "request_id": name,
        "worker": "w1",
        "user": name,
        "task": "chat",
        "sent_at": T0 + at_s,
        "chunk_us": times,
        "first_answer_us": times[0] if times else None,
        "ended_us": times[-1] if times else None,
        "outcome": Outcome.OK,
        "http_status": 200,
        "finish_reason": "stop",
        "prompt_tokens": 10,
        "output_tokens": len(times) if tokens is None else tokens,
        "tokens_from": TokensFrom.USAGE,
        "stamp": Stamp.KERNEL,
        "lag_max_us": 20,
        "coalesced": 0,
    }
    return RequestRecord(**known | more)


def failed(name: str, at_s: float, after_ms: float, chunks_ms: Sequence[float] = (), **more: Any) -> RequestRecord:
    known: dict[str, Any] = {
        "outcome": Outcome.FAILED,
        "error_class": ErrorClass.OVERLOADED,
        "http_status": 503,
        "first_answer_us": None,
        "ended_us": round(after_ms * 1000),
        "finish_reason": None,
        "prompt_tokens": None,
        "output_tokens": None,
        "tokens_from": None,
    }
    return ok(name, at_s, chunks_ms, **known | more)


def cancelled(name: str, at_s: float, after_ms: float, chunks_ms: Sequence[float] = (), **more: Any) -> RequestRecord:
    """We stopped it `after_ms`."""
    return failed(
        name, at_s, after_ms, chunks_ms, outcome=Outcome.CANCELLED, error_class=None, http_status=None, **more
    )


def step(
    number: int, users: int, settled_s: float, ended_s: float | None, started_s: float | None = None
) -> StepRecord:
    return StepRecord(
        step=number,
        target_users=users,
        started_at=T0 + (settled_s if started_s is None else started_s),
        settled_at=T0 + settled_s,
        ended_at=None if ended_s is None else T0 + ended_s,
    )


def health(at_s: float, worker: str = "w1", users: int = 1, **more: Any) -> HealthRecord:
    known: dict[str, Any] = {
        "at": T0 + at_s,
        "worker": worker,
        "users": users,
        "in_flight": users,
        "cpu_ratio": 0.1,
        "loop_lag_max_us": 100,
        "reads": 10,
        "kernel_reads": 10,
        "backlog": 0,
        "rss_bytes": 1,
        "clock_step_us": 0,
    }
    return HealthRecord(**known | more)


def told(at_s: float, target: str = "http://a", **said: float) -> ServerRow:
    """What a server said of itself."""
    return ServerRow(at=T0 + at_s, target=target, **said)


def lines(kind: type[Row], records: Iterable[Row]) -> str:
    return header(kind) + "".join(map(to_csv, records))


def write_run(
    folder: Path,
    requests: Sequence[RequestRecord],
    steps: Sequence[StepRecord] = (),
    healths: Sequence[HealthRecord] = (),
    step_time_s: float = 10,
    warmup_s: float = 0,
    server: Sequence[ServerRow] = (),
    **info: Any,
) -> Path:
    """A run folder of one worker. Without `steps`: one step of one user, settled at T0."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "schema": 1,
        "run_id": "paper",
        "state": "complete",
        "scenario": {"name": "stepload", "steps": [1], "step_time_s": step_time_s, "warmup_s": warmup_s},
        "slos": {},
        "target": "http://server:8000/v1",
        "model": "m",
        "started_at": T0,
    }
    (folder / "run.json").write_text(json.dumps(about | info))
    (folder / "steps.csv").write_text(lines(StepRecord, steps or [step(1, 1, 0, step_time_s)]))
    (folder / "requests-w1.csv").write_text(lines(RequestRecord, requests))
    if healths:
        (folder / "health-w1.csv").write_text(lines(HealthRecord, healths))
    if server:
        rows = [[str(value) if (value := getattr(row, name)) is not None else "" for name in COLUMNS] for row in server]
        (folder / FILE).write_text("".join(",".join(cells) + "\n" for cells in (COLUMNS, *rows)))
    return folder
