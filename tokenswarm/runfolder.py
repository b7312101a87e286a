"""The folder of a run: which files there are, who writes them, and what `run.json` says.

This is the only place that knows the files' names. The master makes the folder, workers that see it attach to it.
"""

import json
import os
import re
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenswarm.record import StepRecord, header, to_csv
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

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class RunFolderError(Exception):
    """The run cannot have its folder. Its text is one sentence or two for a person."""


class RunExists(RunFolderError):
    """A run of that name is there already; nothing of it was touched."""


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
