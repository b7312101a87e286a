"""A run folder → frames. The only stage that reads files; what it had to leave out it says in `notes`."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import request_files, tables
from analysis.cells import MICRO, epoch_us
from analysis.chunks import Chunks, assemble
from analysis.errors import RunError
from analysis.run_json import checked
from tokenswarm.record import SCHEMA, HealthRecord, RequestRecord, StepRecord
from tokenswarm.runfolder import HEALTH_OF_ALL, REQUESTS_OF_ALL, RUN, STEPS
from tokenswarm.server_row import FILE as SERVER
from tokenswarm.server_row import ServerRow


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One run folder, read. `requests` is sorted by sending time; row i's chunks are `chunks.of(i)`."""

    folder: Path
    info: dict[str, Any]  # run.json
    steps: pd.DataFrame  # columns of StepRecord, instants also as *_us
    requests: pd.DataFrame  # scalar columns of RequestRecord, sent_us and due_us (int64 epoch µs, the master's clock)
    chunks: Chunks
    health: pd.DataFrame  # columns of HealthRecord, and us
    server: pd.DataFrame  # columns of ServerRow, and us; no rows where the server says nothing of itself
    cut_rows: int  # last rows that were cut, dropped
    notes: tuple[str, ...]  # what a reader of the figures should know about the files


def load(folder: Path) -> Run:
    """Reads `folder`. Raises RunError where it is no run folder or a file of it is damaged in its middle."""
    if not folder.is_dir():
        raise RunError(f"{folder} is no folder; name a run's folder, such as results/<run>.")
    info = _info(folder / RUN)
    steps_files, files = sorted(folder.glob(STEPS)), _request_files(folder)
    if not steps_files and not files:
        raise RunError(f"{folder} holds neither {STEPS} nor {REQUESTS_OF_ALL}: nothing was recorded in this run.")
    steps, steps_cut, steps_notes = tables.small_table(StepRecord, steps_files)
    health, health_cut, health_notes = tables.small_table(HealthRecord, sorted(folder.glob(HEALTH_OF_ALL)))
    server, server_cut, server_notes = tables.small_table(ServerRow, sorted(folder.glob(SERVER)))
    offsets_us = clock_offsets_us(info)
    requests, chunks, requests_cut, requests_notes = _requests(files, offsets_us)
    cut = steps_cut + health_cut + server_cut + requests_cut
    missing = [name for name, found in ((STEPS, steps_files), (REQUESTS_OF_ALL, files)) if not found]
    notes = [
        *_schema_note(info),
        *(f"{name} is missing" for name in missing),
        *steps_notes,
        *health_notes,
        *server_notes,
        *requests_notes,
    ]
    if cut:
        notes.append(f"{cut} last row{'s were' if cut > 1 else ' was'} cut in the middle and dropped")
    unknown = sorted(set(requests.worker.dropna().unique()) - offsets_us.keys()) if info.get("clients") else []
    if unknown:
        notes.append(f"the clock of {', '.join(unknown[:3])} was not compared with the master's, which the steps go by")
    health = _with_instants(health)
    if any(offsets_us.values()):
        health["us"] -= health.worker.map(offsets_us).astype(float).fillna(0.0)
    frames = (_with_instants(steps), requests, chunks, health, _with_instants(server))
    return Run(folder, info, *frames, cut, tuple(notes))


def _request_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(REQUESTS_OF_ALL))


def _info(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise RunError(f"{path.parent} has no {RUN}; name a run's folder, such as results/<run>.")
    try:
        info = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise RunError(f"{RUN}, line {error.lineno}, column {error.colno}: no JSON ({error.msg}).") from None
    except UnicodeDecodeError as error:
        raise RunError(f"{RUN}: expected UTF-8, byte {error.start + 1} is not.") from None
    if not isinstance(info, dict):
        raise RunError(f"{RUN}: expected an object, found something else.")
    return checked(info)


def _schema_note(info: dict[str, Any]) -> list[str]:
    schema = info.get("schema")
    return [] if schema in (None, SCHEMA) else [f"recorded under schema {schema}, read under schema {SCHEMA} by name"]


def _with_instants(values: pd.DataFrame) -> pd.DataFrame:
    """`values` with every instant also as epoch µs: `settled_at` → `settled_us`, `at` → `us`."""
    instants = [name for name in values.columns if name == "at" or name.endswith("_at")]
    return values.assign(**{name.removesuffix("at") + "us": epoch_us(values[name]) for name in instants})


def _requests(files: Sequence[Path], offsets_us: Mapping[str, float]) -> tuple[pd.DataFrame, Chunks, int, list[str]]:
    read, notes = request_files.read(files)
    table = _on_one_clock(_with_instants(tables.joined(RequestRecord, read.parts)), offsets_us)
    table = table.iloc[_by_time(table)]
    twice = int(table.request_id.dropna().duplicated().sum())
    if twice:
        ids = "id occurs" if twice == 1 else "ids occur"
        notes.append(f"{twice} request {ids} twice: is a file of requests there as a copy?")
    chunks = assemble(read.times, read.tokens, table.index.to_numpy())
    return table.reset_index(drop=True), chunks, read.cut, notes


def _by_time(table: pd.DataFrame) -> np.ndarray:
    """Places in order of sending, then of id, so that no figure depends on the rows' order."""
    sent_us = table.sent_us.to_numpy()
    order = np.argsort(sent_us, kind="stable")
    same = np.flatnonzero(np.diff(sent_us[order]) == 0)
    if len(same):  # rare: comparing texts takes long
        order = np.lexsort((table.request_id.fillna("").to_numpy(dtype=object), sent_us))
    found: np.ndarray = order
    return found


def clock_offsets_us(info: Mapping[str, Any]) -> dict[str, float]:
    """Worker → µs by which its clock was ahead of the master's, where that was measured."""
    clients = {worker: (client or {}).get("clock_offset_s") for worker, client in (info.get("clients") or {}).items()}
    return {worker: float(offset_s) * MICRO for worker, offset_s in clients.items() if offset_s is not None}


def _on_one_clock(table: pd.DataFrame, offsets_us: Mapping[str, float]) -> pd.DataFrame:
    """`sent_us` and `due_us` by the master's clock, which the steps go by; due is when it was scheduled, or sent."""
    ahead_us: pd.Series | float = 0.0
    if any(offsets_us.values()):
        ahead_us = table.worker.map(offsets_us).astype(float).fillna(0.0)
    return table.assign(
        sent_us=(table.sent_us - ahead_us).round().astype(np.int64),
        due_us=(table.scheduled_us.fillna(table.sent_us) - ahead_us).round().astype(np.int64),
    )
