"""Baselines: runs kept as small files, to be committed. `baselines/<name>/<run id>.json`, several runs to a name.

A file carries run id, date, conditions and a checksum of itself. The gate can read it from another git revision than the
one that is checked out: a change must not bring its own baseline.
"""

import dataclasses
import hashlib
import json
import math
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from analysis.gate_errors import GateUsage, NoEvidence
from analysis.kept import StepKept
from analysis.quality import Answers, from_plain
from analysis.resampling import CELLS, Samples
from analysis.spread import STATED_DF, Spread

FORMAT = 1
FOLDER = Path("baselines")
CALIBRATION = "calibration.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
INFO = (  # of run.json: all that makes runs comparable, and nothing that names a server
    *("schema", "definitions_version", "run_id", "started_at", "ended_at", "state", "scenario", "slos", "model"),
    *("conditions", "seed", "versions", "host", "cores"),
)
OPTIONS = ("fresh_connections", "tokenizer", "first_token_timeout", "stall_timeout", "total_timeout", "quality")


@dataclasses.dataclass(frozen=True, slots=True)
class RunKept:
    """One run: what it was (`info`, of run.json), its steps, its answers to the fixed prompts."""

    info: dict[str, Any]
    steps: tuple[StepKept, ...]
    answers: Answers
    hash: str = ""

    @property
    def run_id(self) -> str:
        return str(self.info.get("run_id"))

    @property
    def started_at(self) -> float | None:
        """Epoch s."""
        return self.info.get("started_at")

    @property
    def identity(self) -> tuple[str, float | None]:
        """A run's name may be given again to a later one; the instant it started at is its own."""
        return self.run_id, self.started_at

    def step(self, key: tuple[int, int]) -> StepKept | None:
        return next((step for step in self.steps if step.key == key), None)


def about(info: dict[str, Any]) -> dict[str, Any]:
    """What is kept of run.json."""
    options = info.get("options") or {}
    kept = {name: info.get(name) for name in INFO}
    workers = len(info.get("clients") or {}) or None
    return kept | {"workers": workers, "options": {name: options.get(name) for name in OPTIONS if name in options}}


def to_text(run: RunKept) -> str:
    """The file's content."""
    body = {
        "format": FORMAT,
        "info": run.info,
        "steps": [_plain_step(step) for step in run.steps],
        "answers": [dataclasses.asdict(answer) for answer in run.answers.values()],
    }
    return _dumps({"hash": _hash(body), **body}) + "\n"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _hash(body: dict[str, Any]) -> str:
    return hashlib.sha256(_dumps(body).encode("utf-8", "backslashreplace")).hexdigest()[:16]


def from_text(text: str, where: str) -> RunKept:
    """The run in a file's content. Raises NoEvidence where it is damaged, edited or of another format."""
    again = "keep the baseline again with make baseline"
    try:
        found = json.loads(text)
        said = found.pop("hash")
        if found.get("format") != FORMAT:
            raise NoEvidence(f"{where} has format {found.get('format')}, this version reads {FORMAT}; {again}.")
        if said != _hash(found):
            raise NoEvidence(f"{where} was changed after it was written (its checksum differs); {again}.")
        steps = tuple(_step(one) for one in found["steps"])
        return RunKept(found["info"], steps, from_plain(found["answers"], where), said)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoEvidence(f"{where} cannot be read ({error!r}); {again}.") from None


def _known(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _plain_step(step: StepKept) -> dict[str, Any]:
    plain = {field.name: getattr(step, field.name) for field in dataclasses.fields(step)}
    return plain | {
        "window_s": _known(step.window_s),
        "request_s": _known(step.request_s),
        "figures": {name: _known(value) for name, value in step.figures.items()},
        "counts": {name: [float(f"{n:.6g}") for n in counts.tolist()] for name, counts in step.counts.items()},
        "samples": {name: _plain_samples(samples) for name, samples in step.samples.items()},
    }


def _plain_samples(samples: Samples) -> dict[str, Any]:
    order = np.argsort(samples.cell, kind="stable")
    weights = None if samples.weight is None else [float(f"{w:.4g}") for w in samples.weight[order].tolist()]
    return {
        "per_cell": np.bincount(samples.cell, minlength=CELLS).tolist(),
        "us": [int(float(f"{us:.4g}")) for us in samples.value[order].tolist()],
        "open": np.flatnonzero(samples.is_open[order]).tolist(),
        "weight": weights,
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _step(plain: dict[str, Any]) -> StepKept:
    return StepKept(
        **plain
        | {
            "window_s": _number(plain["window_s"]),
            "request_s": _number(plain["request_s"]),
            "figures": {name: _number(value) for name, value in plain["figures"].items()},
            "counts": {name: np.array(counts, dtype=float) for name, counts in plain["counts"].items()},
            "samples": {name: _samples(one) for name, one in plain["samples"].items()},
        }
    )


def _samples(plain: dict[str, Any]) -> Samples:
    value = np.array(plain["us"], dtype=float)
    is_open = np.zeros(len(value), bool)
    is_open[plain["open"]] = True
    weight = None if plain["weight"] is None else np.array(plain["weight"], dtype=float)
    return Samples(np.repeat(np.arange(CELLS), plain["per_cell"]), value, is_open, weight)


def checked(name: str) -> str:
    """Raises GateUsage where `name` cannot be a folder's."""
    if not _NAME.fullmatch(name):
        raise GateUsage(
            f"'{name}' cannot name a baseline: letters, digits, '.', '_' and '-' can, at most 100 (NAME=main)"
        )
    return name


def write(run: RunKept, name: str, root: Path = FOLDER) -> Path:
    """Keep `run` under `name`; a run of the same id is replaced."""
    folder = root / checked(name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.run_id}.json"
    part = path.with_suffix(".part")
    part.write_text(to_text(run), encoding="utf-8", errors="backslashreplace")
    part.replace(path)
    return path


@dataclasses.dataclass(frozen=True, slots=True)
class Baseline:
    name: str
    runs: tuple[RunKept, ...]  # oldest first
    spread: dict[str, Spread]  # by figure, as calibrated; empty: not measured


def read(name: str, root: Path = FOLDER, ref: str | None = None) -> Baseline:
    """The baseline called `name`, of the working tree or of git revision `ref`. Raises GateUsage or NoEvidence."""
    folder = root / checked(name)
    if ref and ref.startswith("-"):
        raise GateUsage(f"--base-ref: '{ref}' is no revision")
    texts = _at_revision(folder, ref) if ref else _in_tree(folder)
    of = f" at {ref}" if ref else ""
    found = {file: from_text(text, f"{folder / file}{of}") for file, text in texts.items() if file != CALIBRATION}
    _check_each_is_another(found, folder)
    runs = list(found.values())
    if not runs:
        raise NoEvidence(
            f"There is no baseline '{name}': {folder}{of} holds no run. "
            f"Keep one with: make baseline RUN=results/<run> NAME={name}"
        )
    runs.sort(key=lambda run: (run.started_at or 0.0, run.run_id))
    spread = read_spread(texts[CALIBRATION], str(folder / CALIBRATION)) if CALIBRATION in texts else {}
    return Baseline(name, tuple(runs), spread)


def read_spread(text: str, where: str) -> dict[str, Spread]:
    """What `calibrate` wrote, or a person: standard deviations, and the degrees of freedom they are known with."""
    try:
        found = json.loads(text)
        known = found.get("df") or {}
        read = {name: Spread(float(sd), float(known.get(name, STATED_DF))) for name, sd in found["spread"].items()}
        wrong = [name for name, one in read.items() if not (0 <= one.sd < math.inf and 0 < one.df < math.inf)]
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: no standard deviation")
        return read
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoEvidence(f"{where} cannot be read ({error!r}); make it again with make calibrate.") from None


def _check_each_is_another(found: Mapping[str, RunKept], folder: Path) -> None:
    """One run kept twice would look like two that agree to the last digit: as if this machine had no noise."""
    seen: dict[tuple[str, float | None], str] = {}
    for file, run in found.items():
        first = seen.setdefault(run.identity, file)
        if first != file:
            raise NoEvidence(f"{folder / first} and {file} hold the same run, {run.run_id}; delete one of them.")


def _in_tree(folder: Path) -> dict[str, str]:
    return {path.name: _decoded(_bytes(path), path) for path in sorted(folder.glob("*.json"))}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NoEvidence(f"{path} cannot be read: {error.strerror}.") from None


def _decoded(content: bytes, path: Path) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NoEvidence(
            f"{path} cannot be read: it is no UTF-8; keep the baseline again with make baseline."
        ) from None


def _at_revision(folder: Path, ref: str) -> dict[str, str]:
    listed = os.fsdecode(_git("ls-tree", "-z", "--name-only", ref, "--", f"./{folder}/"))
    names = [Path(path) for path in listed.split("\0") if path.endswith(".json")]
    return {path.name: _decoded(_git("show", f"{ref}:./{path.as_posix()}"), path) for path in names}


def _git(*arguments: str) -> bytes:
    command: Sequence[str] = ["git", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    except FileNotFoundError:
        raise GateUsage("--base-ref needs git, and it is not installed") from None
    if done.returncode:
        said = (done.stderr.decode(errors="replace").strip().splitlines() or ["no words"])[0]
        raise NoEvidence(f"The baseline cannot be read from git: {said}. Is that revision fetched?")
    return done.stdout
