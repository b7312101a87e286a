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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.__main__ import table
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
TIMES_READ, RSS_MB, GROWTH = 3.0, 1500.0, 1.25  # the goals: × read_csv, at the peak, × the time of a token when longer
READ, SUMMARY, PAGE, EVERYTHING = "read_csv", "summary", "report.html", "everything"
ANALYSES = (SUMMARY, PAGE, EVERYTHING)
MINUTE = 1 / 40  # of a run: what its analysis takes is what every analysis takes, however short the run
LIMIT_S = 600.0  # of one side
# What each side has loaded before its clock starts, and what it does then.
SIDES = {
    READ: "import pandas as pd",
    SUMMARY: "import analysis.pipeline",
    PAGE: "import analysis.pipeline",
    EVERYTHING: "import analysis.__main__, analysis.pipeline, analysis.table, analysis.plots",
}
WORK = {
    READ: "frames = [pd.read_csv(path) for path in sorted(folder.glob('*.csv')) if path.name != 'summary.csv']",
    SUMMARY: "analysis.pipeline.analyse(folder)",
    PAGE: (
        "from analysis import findings, report\n"
        "found = analysis.pipeline.analyse(folder)\n"
        "report.write(found, findings.findings(found))"
    ),
    EVERYTHING: "analysis.__main__.main(['summary', str(folder)])",
}
CLOCK = """
import json, pathlib, resource, sys, time
folder = pathlib.Path(sys.argv[1])
{imports}
def now():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used), sum(one.ru_maxrss for one in used)
wall, cpu, _ = now()
{work}
wall_then, cpu_then, peak_kb = now()
print(json.dumps({{"wall_s": wall_then - wall, "cpu_s": cpu_then - cpu, "rss_mb": peak_kb / 1024}}))
"""


def make_run(folder: Path, times: float = 1, seed: int = 1) -> int:
    """A run folder as a measurement leaves it, `times` as long; returns its number of tokens."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    length_s = STEP_S * times
    about = {
        "schema": 1,
        "run_id": f"bench-{seed}",
        "state": "complete",
        "scenario": {"name": "stepload", "steps": USERS, "step_time_s": length_s, "warmup_s": WARMUP_S * min(times, 1)},
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
    reads = 100 * users
    return HealthRecord(
        at=at_s,
        worker=worker,
        users=users,
        in_flight=users,
        cpu_ratio=0.05,
        loop_lag_max_us=300,
        reads=reads,
        kernel_reads=reads,
        backlog=0,
        rss_bytes=100_000_000,
        clock_step_us=0,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Used:
    """What one side took: its own work, without the start of Python and what it has loaded before.

    CPU time and memory are those of all its processes; `rss_mb` counts twice what two of them share.
    """

    wall_s: float
    cpu_s: float
    rss_mb: float


def measure(side: str, folder: Path) -> Used:
    """One side in a fresh process. Raises RuntimeError with its last words where it fails."""
    code = CLOCK.format(imports=SIDES[side], work=WORK[side])
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{side} failed: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    return Used(**json.loads(done.stdout.splitlines()[-1]))


Sides = Mapping[str, Sequence[Used]]


def compare(folder: Path, pairs: int, sides: Sequence[str] = tuple(SIDES)) -> dict[str, list[Used]]:
    """Side → what it took in each of `pairs` rounds; the sides take turns."""
    found: dict[str, list[Used]] = {side: [] for side in sides}
    for number in range(pairs):
        for side in sides:
            if sys.stderr.isatty():
                print(f"\r{number + 1}/{pairs} {side:<12}", end="", file=sys.stderr, flush=True)
            found[side].append(measure(side, folder))
    if sys.stderr.isatty():
        print(f"\r{'':<24}\r", end="", file=sys.stderr, flush=True)
    return found


def lines(found: Sides, minute: Sides, longer: Sides | None, times: int) -> list[Line]:
    """The goals and what was measured: ratios are medians over the pairs. `minute`: the same of a run of one minute."""
    section = "analysis of a run of 40 minutes"
    shown = []
    for side in ANALYSES:
        ratio = _ratio(found, side, "wall_s")
        text = f"{ratio:.1f} x (CPU {_ratio(found, side, 'cpu_s'):.1f} x; {_median(found[side], 'wall_s'):.2f} s)"
        shown.append(_line(section, f"CSV to {side}", text, f"<= {TIMES_READ:.0f} x read_csv", ratio <= TIMES_READ))
    read = f"{_median(found[READ], 'wall_s'):.2f} s (CPU {_median(found[READ], 'cpu_s'):.2f} s)"
    shown.append(Line(section, "pandas.read_csv alone", read, "", None))
    shown.append(_memory(section, [used for side in ANALYSES for used in found[side]]))
    section = "of which for any run, as for one of a minute"
    for side in ANALYSES:
        text = f"{_median(minute[side], 'wall_s'):.2f} s (CPU {_median(minute[side], 'cpu_s'):.2f} s)"
        shown.append(Line(section, f"CSV to {side}", text, "", None))
    if longer is not None:
        section = f"{times} times as long"
        growth = _median(longer[SUMMARY], "cpu_s") / _median(found[SUMMARY], "cpu_s") / times
        text = f"{growth:.2f} x a token's CPU ({_median(longer[SUMMARY], 'wall_s'):.2f} s)"
        shown.append(_line(section, "CSV to summary", text, f"<= {GROWTH:.2f} x", growth <= GROWTH))
        shown.append(_memory(section, longer[SUMMARY]))
    return shown


def _memory(section: str, used: Sequence[Used]) -> Line:
    peak_mb = max(one.rss_mb for one in used)
    return _line(section, "resident memory, peak", f"{peak_mb:.0f} MB", f"< {RSS_MB:.0f} MB", peak_mb < RSS_MB)


def _ratio(found: Sides, side: str, what: str) -> float:
    pairs = zip(found[side], found[READ], strict=True)
    return statistics.median(getattr(used, what) / getattr(read, what) for used, read in pairs)


def _median(used: Sequence[Used], what: str) -> float:
    return statistics.median(getattr(one, what) for one in used)


def _line(section: str, what: str, measured: str, goal: str, is_met: bool) -> Line:
    return Line(section, what, measured, goal, Verdict.PASS if is_met else Verdict.SHORT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 measured, whatever came of it."""
    parser = argparse.ArgumentParser(prog="python -m bench.analysis", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5, help="rounds of all sides (default %(default)s)")
    parser.add_argument("--long", type=int, metavar="TIMES", help="also a run so many times as long, such as 10")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything that was measured to FILE")
    asked = parser.parse_args(arguments)
    longer = None
    with tempfile.TemporaryDirectory(prefix="tokenswarm-bench-") as name:
        tokens = make_run(Path(name) / "run")
        make_run(Path(name) / "minute", MINUTE)
        found = compare(Path(name) / "run", asked.pairs)
        minute = compare(Path(name) / "minute", asked.pairs, ANALYSES)
        if asked.long:
            make_run(Path(name) / "long", asked.long)
            longer = compare(Path(name) / "long", 1, (SUMMARY,))
    shown = lines(found, minute, longer, asked.long or 1)
    print(f"{tokens / 1e6:.2f} million tokens, {asked.pairs} pairs of fresh processes, medians of their ratios")
    print(table(shown))
    if asked.json is not None:
        sides = {
            name: {side: [dataclasses.asdict(one) for one in used] for side, used in which.items()}
            for name, which in (("run", found), ("minute", minute), ("long", longer or {}))
        }
        content = {"tokens": tokens, "goals": [dataclasses.asdict(line) for line in shown], "sides": sides}
        asked.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
