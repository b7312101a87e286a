"""A step as the JSON that `vllm bench serve --save-result` writes, so that scripts made for it read a run of ours.

Keys and units are vLLM's (latencies in ms); the definitions are this project's: a steady window instead of the whole run,
E2E of requests still open estimated, not left out. A figure that is withheld is null. Keys beyond vLLM's begin with
`tokenswarm_`, as its own `--metadata` would add them. Its lists of single requests (`--save-detailed`) are the token table.
"""

import argparse
import datetime
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis import names
from analysis.cells import MICRO
from analysis.errors import RunError
from analysis.events import inside
from analysis.pipeline import Analysis, analyse
from analysis.steady import censor
from tokenswarm.record import Outcome

FILES = "vllm-step{step}-concurrency{users}.json"
BACKEND = "openai-chat"
METRICS = {"ttft": names.TTFT, "tpot": names.TPOT, "itl": names.ITL, "e2el": names.E2E}
FIGURES = {"mean": names.MEAN, "median": "p50", **{which: which for which in names.QUANTILES}}
USAGE = 2


def steps(analysis: Analysis) -> Iterator[dict[str, Any]]:
    """One object a step, in vLLM's order of keys."""
    for window, row in zip(analysis.steps.itertuples(), analysis.summary.to_dict("records"), strict=True):
        named = {str(name): value for name, value in row.items()}
        yield {key: _plain(value) for key, value in _step(analysis, window, named).items()}


def _step(analysis: Analysis, window: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    info = analysis.run.info
    length_s, output_per_s = row[names.WINDOW_LENGTH_S], row[names.OUTPUT_TOKENS_PER_S]
    completed_per_s, total_per_s = row[names.REQUESTS_PER_S], row[names.TOTAL_TOKENS_PER_S]
    found: dict[str, Any] = {
        "date": _date(info.get("started_at")),
        "endpoint_type": BACKEND,
        "backend": BACKEND,
        "label": info.get("run_id"),
        "model_id": info.get("model"),
        "tokenizer_id": (info.get("options") or {}).get("tokenizer") or info.get("model"),
        "num_prompts": row[names.SENT],
        "request_rate": "inf",
        "burstiness": 1.0,
        "max_concurrency": row[names.TARGET_USERS],
        "duration": length_s,
        "completed": _count(completed_per_s * length_s),
        "failed": row[names.outcome_count(Outcome.FAILED)] + row[names.outcome_count(Outcome.EMPTY)],
        "total_input_tokens": _count((total_per_s - output_per_s) * length_s),
        "total_output_tokens": _count(output_per_s * length_s),
        "request_throughput": completed_per_s,
        "request_goodput": row.get(names.GOODPUT_PER_S),
        "output_throughput": output_per_s,
        "total_token_throughput": total_per_s,
    }
    spread = _standard_deviations(analysis, window)
    for theirs, ours in METRICS.items():
        for figure, which in FIGURES.items():
            found[f"{figure}_{theirs}_ms"] = row[names.stat(ours, which)] * 1000
        found[f"std_{theirs}_ms"] = spread[theirs]
    found["tokenswarm_run_id"], found["tokenswarm_step"] = info.get("run_id"), row[names.STEP]
    found["tokenswarm_verdict"], found["tokenswarm_reasons"] = row[names.VERDICT], row[names.REASONS]
    return found


def _standard_deviations(analysis: Analysis, window: Any) -> dict[str, float]:
    """In ms, of what was seen to its end."""
    if np.isnan(window.begin_us):
        return dict.fromkeys(METRICS, np.nan)
    begin_us, end_us = int(window.begin_us), int(window.end_us)
    sent = censor(analysis.requests, begin_us, end_us)
    whole = sent[~sent.censored]
    gaps_us = inside(analysis.requests, analysis.run.chunks, begin_us, end_us).gaps_us
    of: dict[str, Any] = {
        "ttft": sent.ttft_us.dropna(),
        "tpot": whole.tpot_us.dropna(),
        "itl": gaps_us,
        "e2el": whole.e2e_us.dropna(),
    }
    return {name: float(np.std(values)) / MICRO * 1000 if len(values) else np.nan for name, values in of.items()}


def _date(started_at: float | None) -> str | None:
    if started_at is None:
        return None
    return datetime.datetime.fromtimestamp(started_at, datetime.UTC).strftime("%Y%m%d-%H%M%S")


def _count(value: float) -> int | None:
    return round(value) if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """As JSON knows it: no numpy, and null where a number does not exist."""
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(analysis: Analysis, folder: Path) -> list[Path]:
    """Writes a file a step into `folder`, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for one in steps(analysis):
        path = folder / FILES.format(step=one["tokenswarm_step"], users=one["max_concurrency"])
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(one, ensure_ascii=False, allow_nan=False), encoding="utf-8")
        os.replace(part, path)
        paths.append(path)
    return paths


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own options."""
    parser.add_argument("folder", type=Path, help="a run's folder, results/<run>")
    parser.add_argument("--out", type=Path, help="folder to write into (default: the run's folder)")


def run(arguments: Sequence[str]) -> int:
    """`python -m analysis vllm results/<run> [--out FOLDER]`. Exit code: 0 written, 2 a run that cannot be read."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis vllm", description="write each step as the JSON of `vllm bench serve --save-result`"
    )
    add_arguments(parser)
    asked = parser.parse_args(arguments)
    try:
        for path in write(analyse(asked.folder), asked.out or asked.folder):
            print(path)
    except RunError as error:
        print(f"analysis: {error}", file=sys.stderr)
        return USAGE
    except OSError as error:
        print(f"analysis: {error.strerror}: {error.filename}", file=sys.stderr)
        return USAGE
    return 0
