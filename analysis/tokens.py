"""The tidy per-chunk table: one row for each chunk of each request, for other tools."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.cells import MICRO
from analysis.errors import RunError
from analysis.load import Run
from analysis.steady import place, windows

FILE = "tokens.csv"
CSV, PARQUET = ".csv", ".parquet"
BLOCK_CHUNKS = 500_000  # bounds memory: the table is many times the size of what it is made from


def blocks(run: Run) -> Iterator[pd.DataFrame]:
    """Frames with run_id, request_id, step, chunk (from 0), arrived_at (epoch s), gap_s, tokens (blank: not told)."""
    steps = windows(run.steps, run.info)
    requests = place(run.requests, run.chunks, steps)
    numbers = np.append(steps.step.to_numpy(dtype=float), np.nan)[requests.step_index.to_numpy()]
    start, counts = run.chunks.start, run.chunks.per_request
    first = 0
    while first < len(requests):
        last = int(np.searchsorted(start, start[first] + BLOCK_CHUNKS, side="right")) - 1
        last = min(max(last, first + 1), len(requests))
        rows = np.repeat(np.arange(first, last), counts[first:last])
        span = slice(start[first], start[last])
        at_us = run.chunks.at_us[span].astype(np.int64)
        index = np.arange(span.start, span.stop) - start[rows]
        gap_us = np.diff(at_us, prepend=0).astype(float)
        gap_us[index == 0] = np.nan
        yield pd.DataFrame(
            {
                "run_id": run.info.get("run_id"),
                "request_id": requests.request_id.to_numpy()[rows],
                "step": pd.array(numbers[rows], dtype="Int64"),
                "chunk": index,
                "arrived_at": (requests.sent_us.to_numpy()[rows] + at_us) / MICRO,
                "gap_s": gap_us / MICRO,
                "tokens": np.nan if run.chunks.tokens is None else run.chunks.tokens[span],
            }
        )
        first = last


def write(run: Run, path: Path) -> Path:
    """Writes the table to `path`, whole or not at all: Parquet where its name ends so, else CSV.

    Raises RunError where Parquet is asked for and pyarrow, which writes it, is not installed.
    """
    part = path.with_name(path.name + ".part")
    if path.suffix == PARQUET:
        _parquet(blocks(run), part)
    else:
        _csv(blocks(run), part)
    os.replace(part, path)
    return path


def _csv(found: Iterator[pd.DataFrame], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, block in enumerate(found):
            block.to_csv(file, index=False, header=number == 0, float_format="%.6f", lineterminator="\n")


def _parquet(found: Iterator[pd.DataFrame], path: Path) -> None:
    try:
        import pyarrow as pa  # type: ignore[import-not-found,unused-ignore]  # no requirement: optional
        from pyarrow import parquet
    except ImportError:
        raise RunError(
            "Parquet is written by pyarrow, which is not installed: pip install -r requirements-parquet.txt, or name a "
            f"{CSV} file."
        ) from None
    texts, counts, times = ("run_id", "request_id"), ("step", "chunk"), ("arrived_at", "gap_s")
    fields = [(name, pa.string()) for name in texts] + [(name, pa.int64()) for name in counts]
    fields += [*((name, pa.float64()) for name in times), ("tokens", pa.float32())]
    schema = pa.schema(fields)
    with parquet.ParquetWriter(path, schema) as writer:
        for block in found:
            writer.write_table(pa.Table.from_pandas(block, schema=schema, preserve_index=False))
