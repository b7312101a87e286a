"""The folder of a run: which files there are, who writes them, and what `run.json` says.

This is the only place that knows the files' names. The master makes the folder, workers that see it attach to it.
"""

import dataclasses
import enum
import json
import math
import os
import re
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenswarm.masking import SHORTEST_SECRET
from tokenswarm.metrics import DEFINITIONS_VERSION
from tokenswarm.record import SCHEMA, StepRecord, header, to_csv
from tokenswarm.rowfile import RecordingError, RowFile, cut_torn_row

RUN = "run.json"
STEPS = "steps.csv"
SUMMARY = "summary.csv"
CURVE_PNG = "curve.png"
CURVE_SVG = "curve.svg"
REQUESTS_OF_ALL = "requests-*.csv"  # a file a worker, as for the next two
HEALTH_OF_ALL = "health-*.csv"
OUTPUTS_OF_ALL = "outputs-*.jsonl"
QUALITY = "quality.jsonl"

REMOVED = "[removed]"  # stands for a secret
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PARTS = ("key", "secret", "passw", "passphrase", "credential", "authorization", "cookie", "header", "bearer")
_CREDENTIALS = {"access", "api", "auth", "hf", "id", "login", "refresh", "session"}  # "… tokens" that are no counts
_USERINFO = re.compile(r"(?<=://)[^/?#\s]*@")
_FORMS = re.compile(r"\b(?:Bearer|Basic)\s+\S+|\b(?:sk|pk|gsk|xai)-[\w-]{8,}|\bhf_\w{8,}", re.IGNORECASE)
_NAMED = (  # a name, a sign, a value
    re.compile(r"(?<=[?&])([^=&#\s]+)(=)([^&#\s\"']+)"),  # in a URL
    re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)(=|\s+)(?!-)([^\s\"']+)"),  # in a command line
    re.compile(r"([A-Za-z][\w-]*)(\s*[:=]\s*)(?!//)([^\s\"',;&]+)"),  # a header, a variable
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class RunFolderError(Exception):
    """The run cannot have its folder. Its text is one sentence or two for a person."""


class RunExists(RunFolderError):
    """A run of that name is there already; nothing of it was touched."""


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


def is_secret(name: str, value: object = None) -> bool:
    """Whether something called `name` is kept out of files. A number called "token" is a count."""
    lower = name.lower()
    words = [word.lower() for word in _WORDS.findall(name)]
    if any(part in lower for part in _PARTS) or "auth" in words:
        return True
    if "token" in words:
        return isinstance(value, bool) or not isinstance(value, int | float)
    return "tokens" in words and not _CREDENTIALS.isdisjoint(words)


def redact(value: Any, secrets: Iterable[str] = ()) -> Any:
    """`value` as JSON can hold it, without secrets: keys, headers and credentials are replaced by REMOVED.

    They are told by name (api_key, hf_token, header …), by form (Bearer …, user:password@host, sk-…, --api-key x in a
    command line), and by value: `secrets` holds those that the caller knows. Counts such as max_tokens stay, and None
    stays None: that nothing was given is no secret.
    """
    secrets = tuple(secrets)
    if isinstance(value, Mapping):
        return {
            str(name): REMOVED if held is not None and is_secret(str(name), held) else redact(held, secrets)
            for name, held in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact(held, secrets) for held in value]
    if isinstance(value, set | frozenset):
        return sorted(redact(held, secrets) for held in value)
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return redact_text(str(value), secrets)


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without the secrets that can be told by their form, and without `secrets` themselves."""
    secrets = tuple(secrets)
    if text.lstrip()[:1] in ("{", "["):  # an option whose value is JSON
        try:
            return json.dumps(redact(json.loads(text), secrets), ensure_ascii=False)
        except ValueError:
            pass
    for secret in sorted((each for each in secrets if len(each) >= SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, REMOVED)
    text = _FORMS.sub(REMOVED, _USERINFO.sub("", text))
    for named in _NAMED:
        text = named.sub(lambda found: f"{found[1]}{found[2]}{REMOVED}" if is_secret(found[1]) else found[0], text)
    return text


def safe_name(worker: str) -> str:
    """`worker` as a part of a file name. Different workers never share one: what had to be changed gets a checksum."""
    if _NAME.fullmatch(worker):
        return worker
    checksum = f"{zlib.crc32(worker.encode('utf-8', 'backslashreplace')):08x}"
    return "-".join(filter(None, (re.sub(r"[^A-Za-z0-9._]+", "-", worker)[:80].strip("-."), checksum)))


def _exists(path: Path) -> RunExists:
    return RunExists(f"{path} is there already. Choose another RUN=, or remove it; nothing was changed.")


class RunFolder:
    """`results/<run>/`. Make it with `create` (the master) or `attach` (workers, analysis)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._steps: RowFile | None = None

    @property
    def run_id(self) -> str:
        return self.path.name

    @classmethod
    def planned(cls, results: Path, name: str | None, now: float | None = None) -> Path:
        """The folder that `create` would make now: for those who must know it before. Raises as `create` does."""
        if name is not None and not _NAME.fullmatch(name):
            raise RunFolderError(
                f"{name!r} cannot name a run: letters of a-z, digits, '.', '_' and '-' can, at most 100, the first of "
                "them a letter or digit. Choose another RUN=."
            )
        stem = name or time.strftime("%Y-%m-%dT%H%MZ", time.gmtime(now))
        path, number = results / stem, 1
        while path.exists():
            if name is not None:
                raise _exists(path)
            number += 1
            path = results / f"{stem}-{number}"
        return path

    @classmethod
    def create(cls, results: Path, name: str | None, now: float | None = None) -> "RunFolder":
        """Make the folder; without a `name` it is called after the time `now` (epoch s), in UTC.

        Raises RunExists where a run called `name` is there, RunFolderError where the name or the place will not do.
        """
        stem = cls.planned(results, name, now).name
        try:
            results.mkdir(parents=True, exist_ok=True)
            number = 1
            while True:
                path = results / (stem if number == 1 else f"{stem}-{number}")
                try:
                    path.mkdir()
                    return cls(path)
                except FileExistsError:
                    if name is not None:
                        raise _exists(path) from None
                    number += 1
        except OSError as error:
            raise RunFolderError(
                f"The run's folder cannot be made in {results}: {error.strerror}. Make that place writable, or choose "
                "another."
            ) from error

    @classmethod
    def attach(cls, path: Path | str) -> "RunFolder":
        """The folder that the master has made. Raises RunFolderError where it is not there."""
        path = Path(path)
        if not path.is_dir():
            raise RunFolderError(f"{path} is not there: a run's folder, made by its master, was expected.")
        return cls(path)

    @property
    def run_json(self) -> Path:
        return self.path / RUN

    @property
    def steps_csv(self) -> Path:
        return self.path / STEPS

    def requests_csv(self, worker: str) -> Path:
        return self.path / REQUESTS_OF_ALL.replace("*", safe_name(worker))

    def health_csv(self, worker: str) -> Path:
        return self.path / HEALTH_OF_ALL.replace("*", safe_name(worker))

    def outputs_jsonl(self, worker: str) -> Path:
        return self.path / OUTPUTS_OF_ALL.replace("*", safe_name(worker))

    def files_of(self, worker: str) -> list[Path]:
        """All that `worker` may write, its rows first: whether it was lost is told by them."""
        return [self.requests_csv(worker), self.health_csv(worker), self.outputs_jsonl(worker)]

    def write_run(self, info: Mapping[str, Any]) -> None:
        """Put `info` into run.json, whole or not at all: whoever looks sees the old one or the new one.

        Raises RecordingError where the disk does not take it; the old one is kept then.
        """
        text = json.dumps(info, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        waiting = self.path / f".{RUN}.new"
        try:
            with open(waiting, "wb") as file:
                file.write(text.encode("utf-8", "backslashreplace"))
                file.flush()
                os.fsync(file.fileno())
            os.replace(waiting, self.run_json)
        except OSError as error:
            waiting.unlink(missing_ok=True)
            raise RecordingError(
                f"{self.run_json} could not be written: {error.strerror}. Make room and make its folder writable; the "
                "rows recorded so far are untouched."
            ) from error

    def read_run(self) -> dict[str, Any]:
        """The content of run.json. Raises RunFolderError where there is none that can be read."""
        try:
            found = json.loads(self.run_json.read_bytes())
        except (OSError, ValueError) as error:
            raise RunFolderError(
                f"{self.path} is no run's folder: {RUN} was expected there and cannot be read ({error})."
            ) from error
        if not isinstance(found, dict):
            raise RunFolderError(f"{self.run_json} is no JSON object, so {self.path} is no run's folder.")
        return found

    def append_step(self, step: StepRecord) -> None:
        """Add a row to steps.csv; the file is made with its first row. Raises RecordingError."""
        if self._steps is None:
            self._steps = RowFile(self.steps_csv, header(StepRecord))
        self._steps.append(to_csv(step))

    def mend(self) -> dict[Path, int]:
        """Cut what killed writers left of their last rows: file → bytes cut. Only when no writer lives any more."""
        patterns = (STEPS, REQUESTS_OF_ALL, HEALTH_OF_ALL, OUTPUTS_OF_ALL)
        files = [path for pattern in patterns for path in sorted(self.path.glob(pattern))]
        return {path: torn for path in files if (torn := cut_torn_row(path))}

    def close(self) -> None:
        """Bring steps.csv to the disk. Raises RecordingError."""
        if self._steps is not None:
            self._steps.close()
