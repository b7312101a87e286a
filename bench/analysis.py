"""`python -m bench.analysis`: how long the analysis of a long run takes, beside what pandas needs to read its files.

The run is made here, seeded: the staircase of a measurement of 40 minutes, every stream at 100 tokens a second. Each side
is a fresh process, the sides take turns, and the ratio is that of a pair: what else runs on the machine hits both.
"""

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.goals import Line, Verdict
from tokenswarm.record import (
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
from tokenswarm.runfolder import RUN, STEPS

USERS = (1, 5, 20, 50)
STEP_S, WARMUP_S = 600.0, 30.0
GAP_US, TOKENS, WORKERS = 10_000, 200, 2
EPOCH_S = 1_761_442_200.0
TIMES_READ, RSS_MB, GROWTH = 3.0, 1500.0, 1.25  # of the goals: × read_csv, at the peak, × the time per token
LIMIT_S = 600.0
SIDES = {
    "read_csv": "import pandas as pd\n",
    "summary": "import analysis.pipeline\n",
    "everything": "import analysis.__main__, analysis.pipeline, analysis.table, analysis.plots\n",
}
WORK = {
    "read_csv": "frames = [pd.read_csv(path) for path in sorted(folder.glob('*.csv'))]\n",
    "summary": "analysis.pipeline.analyse(folder)\n",
    "everything": "analysis.__main__.main(['summary', str(folder)])\n",
}
CLOCK = """
import json, pathlib, resource, sys, time
folder = pathlib.Path(sys.argv[1])
{imports}
wall, cpu = time.perf_counter(), time.process_time()
{work}
used = {{"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu,
         "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}}
print(json.dumps(used))
"""


def make_run(folder: Path, times: int = 1, seed: int = 1) -> int:
    """A run folder as a measurement leaves it, `times` as long; returns its number of tokens."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    length_s = STEP_S * times
    about = {
        "schema": 1,
        "run_id": f"bench-{seed}",
        "state": "complete",
        "scenario": {"name": "stepload", "steps": USERS, "step_time_s": length_s, "warmup_s": WARMUP_S},
        "target": "http://server:8000/v1",
        "model": "m",
    }
    (folder / RUN).write_text(json.dumps(about), encoding="utf-8")
    steps: list[Row] = []
    tokens = 0
    with _Files(folder) as written:
        for number, users in enumerate(USERS, 1):
            begin_s = EPOCH_S + (number - 1) * length_s
            begun = {"started_at": begin_s - 0.001, "settled_at": begin_s, "ended_at": begin_s + length_s}
            steps.append(StepRecord(step=number, target_users=users, **begun))
            for user in range(users):
                for record in _requests(rng, f"{number}-{user}", f"w{user % WORKERS}", begin_s, length_s):
                    tokens += record.output_tokens or 0
                    written.row(record.worker, record)
            for second in range(1, int(length_s) + 1):
                for worker in range(WORKERS):
                    share = users // WORKERS + int(worker < users % WORKERS)
                    written.row(f"w{worker}", _health(begin_s + second, f"w{worker}", share))
    (folder / STEPS).write_text(header(StepRecord) + "".join(map(to_csv, steps)), encoding="utf-8")
    return tokens


class _Files:
    """The workers' files, opened as the first row of each comes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.open: dict[str, Any] = {}

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self.open.values():
            file.close()

    def row(self, worker: str, record: RequestRecord | HealthRecord) -> None:
        name = f"{'requests' if isinstance(record, RequestRecord) else 'health'}-{worker}.csv"
        if name not in self.open:
            self.open[name] = (self.folder / name).open("w", encoding="utf-8")
            self.open[name].write(header(type(record)))
        self.open[name].write(to_csv(record))


def _requests(
    rng: np.random.Generator, user: str, worker: str, begin_s: float, length_s: float
) -> Iterator[RequestRecord]:
    """One user's requests, one after the other, until the step ends; the last one is stopped with it."""
    at_s, number = begin_s, 0
    while at_s < begin_s + length_s:
        count = int(rng.integers(TOKENS // 2, TOKENS * 3 // 2 + 1))
        first_us = int(rng.gamma(4, 12_000)) + 5_000
        times = first_us + np.cumsum(np.maximum(rng.normal(GAP_US, GAP_US / 20, count), 1)).astype(np.int64)
        left_us = int((begin_s + length_s - at_s) * 1e6)
        is_whole = int(times[-1]) + 800 <= left_us
        times = times if is_whole else times[times < left_us]
        ended_us = int(times[-1]) + 800 if is_whole else left_us
        yield RequestRecord(
            request_id=f"{worker}-{user}-{number}",
            worker=worker,
            user=user,
            task="chat",
            prompt_id=f"p{number}",
            sent_at=at_s,
            headers_us=first_us - 2_000,
            chunk_us=tuple(times.tolist()),
            first_answer_us=int(times[0]) if len(times) else None,
            ended_us=ended_us,
            outcome=Outcome.OK if is_whole else Outcome.CANCELLED,
            http_status=200,
            finish_reason="stop" if is_whole else None,
            max_tokens=2 * TOKENS,
            prompt_tokens=512 if is_whole else None,
            output_tokens=count if is_whole else None,
            tokens_from=TokensFrom.USAGE if is_whole else TokensFrom.CHUNKS,
            stamp=Stamp.KERNEL,
            lag_max_us=int(rng.integers(20, 400)),
            coalesced=0,
        )
        number += 1
        at_s = round(at_s + ended_us / 1e6 + 0.001, 6)


def _health(at_s: float, worker: str, users: int) -> HealthRecord:
    busy = {"cpu_ratio": 0.05, "loop_lag_max_us": 300, "reads": 100 * users, "kernel_reads": 100 * users}
    rest = {"backlog": 0, "rss_bytes": 100_000_000, "clock_step_us": 0}
    return HealthRecord(at=at_s, worker=worker, users=users, in_flight=users, **busy, **rest)
