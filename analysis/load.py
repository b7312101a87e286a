"""A run folder → frames. The only stage that reads files; what it had to leave out it says in `notes`."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.cells import Place, check_outcomes, epoch_us, frame, require
from analysis.chunks import Chunks, Lists, assemble, parse_lists
from analysis.errors import RunError
from analysis.rows import Cells, RowReader
from tokenswarm.record import SCHEMA, HealthRecord, RequestRecord, Row, StepRecord, columns
from tokenswarm.runfolder import HEALTH_OF_ALL, REQUESTS_OF_ALL, RUN, STEPS

BLOCK_BYTES = 16_000_000  # of text held at once: enough to amortise numpy's calls, small beside the arrays made of it
TIMES, TOKENS = "chunk_us", "chunk_tokens"
NEEDED = {
    RequestRecord: ("sent_at", "outcome", TIMES),
    StepRecord: ("step", "target_users", "started_at"),
    HealthRecord: ("at", "worker"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One run folder, read. `requests` is sorted by sending time; row i's chunks are `chunks.of(i)`."""

    folder: Path
    info: dict[str, Any]  # run.json
    steps: pd.DataFrame  # columns of StepRecord, instants also as *_us
    requests: pd.DataFrame  # scalar columns of RequestRecord, and sent_us (int64 epoch µs)
    chunks: Chunks
    health: pd.DataFrame  # columns of HealthRecord, and us
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
    requests, chunks, requests_cut, requests_notes = _requests(files)
    cut = steps_cut + health_cut + requests_cut
    missing = [name for name, found in ((STEPS, steps_files), (REQUESTS_OF_ALL, files)) if not found]
    notes = [
        *_schema_note(info),
        *(f"{name} is missing" for name in missing),
        *steps_notes,
        *health_notes,
        *requests_notes,
    ]
    if cut:
        notes.append(f"{cut} last row{'s were' if cut > 1 else ' was'} cut in the middle and dropped")
    return Run(folder, info, _with_instants(steps), requests, chunks, _with_instants(health), cut, tuple(notes))


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


def _blocks(reader: RowReader, kind: type[Row]) -> Iterable[tuple[list[int], dict[str, Sequence[bytes]]]]:
    """Blocks of rows as (line numbers, column → cells), each of about BLOCK_BYTES."""
    missing = [name for name in NEEDED[kind] if name not in reader.columns]
    if missing and reader.columns:
        raise RunError(
            f"{reader.path.name}, line 1: the column {', '.join(missing)} is missing; the header should begin with "
            f"{','.join(columns(kind)[:4])},…"
        )
    wide = reader.columns.index(TIMES) if TIMES in reader.columns else 0
    lines: list[int] = []
    rows: list[Cells] = []
    held = 0
    for line, cells in reader:
        lines.append(line)
        rows.append(cells)
        held += len(cells[wide]) + 200
        if held >= BLOCK_BYTES:
            yield lines, dict(zip(reader.columns, zip(*rows, strict=True), strict=True))
            lines, rows, held = [], [], 0
    if rows:
        yield lines, dict(zip(reader.columns, zip(*rows, strict=True), strict=True))


def _file_notes(reader: RowReader) -> list[str]:
    return (
        [f"{reader.path.name} was rewritten by another program (byte-order mark or CRLF)"] if reader.rewritten else []
    )


def _small_table(kind: type[Row], files: Sequence[Path]) -> tuple[pd.DataFrame, int, list[str]]:
    parts, cut, notes = [], 0, []
    for path in files:
        reader = RowReader(path)
        for lines, cells in _blocks(reader, kind):
            parts.append(require(frame(kind, cells, path, lines), NEEDED[kind], path, lines))
        cut += reader.cut
        notes += _file_notes(reader)
    empty = frame(kind, {}, Path(), [])
    return (pd.concat(parts, ignore_index=True) if parts else empty), cut, notes


def _requests(files: Sequence[Path]) -> tuple[pd.DataFrame, Chunks, int, list[str]]:
    parts: list[pd.DataFrame] = []
    times: list[np.ndarray] = []
    tokens: list[np.ndarray] = []
    cut, notes = 0, []
    for path in files:
        reader = RowReader(path)
        for lines, cells in _blocks(reader, RequestRecord):
            part = frame(RequestRecord, cells, path, lines)
            part = check_outcomes(require(part, NEEDED[RequestRecord][:2], path, lines), path, lines)
            at, told = _lists(cells, path, lines)
            parts.append(part)
            times += [at[index] for index in range(len(lines))]
            tokens += [told[index] for index in range(len(lines))]
        cut += reader.cut
        notes += _file_notes(reader)
    table = pd.concat(parts, ignore_index=True) if parts else frame(RequestRecord, {}, Path(), [])
    table = _with_instants(table)
    table["sent_us"] = table.sent_us.astype(np.int64)
    table = table.sort_values(["sent_us", "request_id"], kind="stable")  # so that no figure depends on the rows' order
    order = table.index.to_numpy()
    twice = int(table.request_id.dropna().duplicated().sum())
    if twice:
        notes.append(f"{twice} request ids occur twice: is a file of requests there as a copy?")
    chunks = assemble([times[index] for index in order], [tokens[index] for index in order])
    return table.reset_index(drop=True), chunks, cut, notes


def _lists(cells: dict[str, Sequence[bytes]], path: Path, lines: Sequence[int]) -> tuple[Lists, Lists]:
    at = parse_lists(cells[TIMES], Place(path, lines, TIMES))
    place = Place(path, lines, TOKENS)
    told = parse_lists(cells.get(TOKENS, [b""] * len(lines)), place)
    wrong = np.flatnonzero((np.diff(told.start) != np.diff(at.start)) & (np.diff(told.start) > 0))
    if len(wrong):
        index = int(wrong[0])
        raise place.error(index, f"one number for each of the {len(at[index])} chunks", cells[TOKENS][index])
    return at, told
