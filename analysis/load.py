"""A run folder → frames. The only stage that reads files; what it had to leave out it says in `notes`."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import MICRO, NEEDED, AnyRow, Place, cell_types, epoch_us, frame
from analysis.chunks import Chunks, Lists, assemble, parse_lists
from analysis.errors import RunError
from analysis.rows import Block, RowReader
from tokenswarm.record import SCHEMA, HealthRecord, RequestRecord, StepRecord
from tokenswarm.runfolder import HEALTH_OF_ALL, REQUESTS_OF_ALL, RUN, STEPS
from tokenswarm.server_row import FILE as SERVER
from tokenswarm.server_row import ServerRow

BLOCK_BYTES = 256_000  # of text at once: enough to amortise numpy's calls, small enough for a processor's cache
PART_ROWS = 50_000  # whose cells are held until they become a part of the frame
TIMES, TOKENS = "chunk_us", "chunk_tokens"


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
    steps, steps_cut, steps_notes = _small_table(StepRecord, steps_files)
    health, health_cut, health_notes = _small_table(HealthRecord, sorted(folder.glob(HEALTH_OF_ALL)))
    server, server_cut, server_notes = _small_table(ServerRow, sorted(folder.glob(SERVER)))
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
    tables = (_with_instants(steps), requests, chunks, health, _with_instants(server))
    return Run(folder, info, *tables, cut, tuple(notes))


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
    return info


def _schema_note(info: dict[str, Any]) -> list[str]:
    schema = info.get("schema")
    return [] if schema in (None, SCHEMA) else [f"recorded under schema {schema}, read under schema {SCHEMA} by name"]


def _with_instants(values: pd.DataFrame) -> pd.DataFrame:
    """`values` with every instant also as epoch µs: `settled_at` → `settled_us`, `at` → `us`."""
    instants = [name for name in values.columns if name == "at" or name.endswith("_at")]
    return values.assign(**{name.removesuffix("at") + "us": epoch_us(values[name]) for name in instants})


def _blocks(reader: RowReader, kind: type[AnyRow]) -> Iterator[Block]:
    """The file's blocks. Raises RunError where a column that is needed is missing."""
    needed = [*NEEDED[kind], *([TIMES] if kind is RequestRecord else [])]
    missing = [name for name in needed if name not in reader.columns]
    if missing and reader.columns:
        raise RunError(
            f"{reader.path.name}, line 1: the column {', '.join(missing)} is missing; the header should begin with "
            f"{','.join(list(cell_types(kind))[:4])},…"
        )
    return reader.blocks(BLOCK_BYTES)


def _file_notes(reader: RowReader) -> list[str]:
    return (
        [f"{reader.path.name} was rewritten by another program (byte-order mark or CRLF)"] if reader.rewritten else []
    )


def _parts(blocks: Iterable[Block], kind: type[AnyRow], path: Path) -> Iterator[pd.DataFrame]:
    """The scalar columns of `blocks` in few frames: each frame costs as much as some thousand rows."""
    lines: list[int] = []
    cells: dict[str, list[bytes]] = {}
    wanted = cell_types(kind).keys()
    for block in blocks:
        lines += block.lines
        for name in block.cells.keys() & wanted:
            cells.setdefault(name, []).extend(block.cells[name])
        if len(lines) >= PART_ROWS:
            yield frame(kind, cells, path, lines)
            lines, cells = [], {}
    if lines:
        yield frame(kind, cells, path, lines)


def _small_table(kind: type[AnyRow], files: Sequence[Path]) -> tuple[pd.DataFrame, int, list[str]]:
    parts, cut, notes = [frame(kind, {}, Path(), [])], 0, []
    for path in files:
        reader = RowReader(path)
        parts += _parts(_blocks(reader, kind), kind, path)
        cut += reader.cut
        notes += _file_notes(reader)
    return _joined(parts), cut, notes


def _joined(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(parts[1:], ignore_index=True) if parts[1:] else parts[0]


def _requests(files: Sequence[Path], offsets_us: Mapping[str, float]) -> tuple[pd.DataFrame, Chunks, int, list[str]]:
    parts = [frame(RequestRecord, {}, Path(), [])]
    times: list[Lists] = []
    tokens: list[Lists] = []
    cut, notes = 0, []
    for path in files:
        reader = RowReader(path)
        parts += _parts(_with_lists(_blocks(reader, RequestRecord), path, times, tokens), RequestRecord, path)
        cut += reader.cut
        notes += _file_notes(reader)
    table = _on_one_clock(_with_instants(_joined(parts)), offsets_us)
    table = table.iloc[_by_time(table)]
    twice = int(table.request_id.dropna().duplicated().sum())
    if twice:
        notes.append(f"{twice} request ids occur twice: is a file of requests there as a copy?")
    chunks = assemble(times, tokens, table.index.to_numpy())
    return table.reset_index(drop=True), chunks, cut, notes


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


def _with_lists(blocks: Iterable[Block], path: Path, times: list[Lists], tokens: list[Lists]) -> Iterator[Block]:
    """`blocks`, their lists of numbers parsed into `times` and `tokens` while they pass."""
    for block in blocks:
        at, told = _lists(block, path)
        times.append(at)
        tokens.append(told)
        yield block


def _lists(block: Block, path: Path) -> tuple[Lists, Lists]:
    at = parse_lists(block.cells[TIMES], Place(path, block.lines, TIMES))
    place = Place(path, block.lines, TOKENS)
    cells = block.cells.get(TOKENS, ())
    if not any(cells):
        return at, Lists(np.empty(0, np.int32), np.zeros(len(block.lines) + 1, np.int64))
    told = parse_lists(cells, place)
    wrong = np.flatnonzero((np.diff(told.start) != np.diff(at.start)) & (np.diff(told.start) > 0))
    if len(wrong):
        index = int(wrong[0])
        raise place.error(index, f"one number for each of the {len(at[index])} chunks", cells[index])
    return at, told
