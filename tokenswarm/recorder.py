"""What one worker writes down: a row per request at its end, its state once a second, and on request the text received.

A row that cannot be kept is never dropped unseen: the first failure is told once, everything after it is counted. After
a failure nothing more is written: on a full disk short rows (failures, mostly) would still fit and long ones would not.
"""

import dataclasses
import json
import typing
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tokenswarm.masking import masked
from tokenswarm.record import HealthRecord, Outcome, RequestRecord, header, to_csv
from tokenswarm.rowfile import RecordingError, RowFile
from tokenswarm.runfolder import RunFolder, RunFolderError

if typing.TYPE_CHECKING:
    from tokenswarm.digest import Reading

_encode = msgspec.json.Encoder().encode


def output_line(request_id: str, chunks: list[str]) -> str:
    """One line of outputs-<worker>.jsonl: a text for each arrival time of the request's row."""
    line = {"request_id": request_id, "chunks": chunks}
    try:
        return _encode(line).decode() + "\n"
    except UnicodeEncodeError:  # half of a surrogate pair: only JSON's own escapes can hold it
        return json.dumps(line) + "\n"


class Recorder:
    """The files of `worker` in `folder`. One per process, made when the run starts.

    `counts`: requests that have ended, by outcome, whether or not their row could be kept. `failed`: why recording
    ended, `lost_rows`: requests without a row since. `on_failure` is called once, from within `write`, `write_health` or
    `close`. `secrets` (the API key) are replaced in texts: servers echo them in their errors.
    Raises RunFolderError or RecordingError where the files cannot be made.
    """

    def __init__(
        self,
        folder: RunFolder,
        worker: str,
        *,
        save_outputs: bool = False,
        secrets: Sequence[str] = (),
        on_failure: Callable[[RecordingError], None] = lambda _: None,
    ) -> None:
        self.counts: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self.failed: RecordingError | None = None
        self.lost_rows = 0
        self._secrets = secrets  # read anew at each row: keys may be renewed in mid run
        self._on_failure = on_failure
        self._files: list[RowFile] = []
        try:
            self._requests = self._open(folder.requests_csv(worker), header(RequestRecord))
            self._health = self._open(folder.health_csv(worker), header(HealthRecord))
            self._outputs = self._open(folder.outputs_jsonl(worker), "") if save_outputs else None
        except FileExistsError as error:
            self.close()
            raise RunFolderError(
                f"{error.filename} is there already: two workers of one run cannot both be called {worker!r}."
            ) from error
        except RecordingError:
            self.close()
            raise

    def _open(self, path: Path, first: str) -> RowFile:
        file = RowFile(path, first)
        self._files.append(file)
        return file

    @property
    def rows(self) -> int:
        """Whole request rows in the file."""
        return self._requests.rows

    def write(self, reading: "Reading") -> None:
        """Keep the request that `reading` has read to its end."""
        record = reading.record
        assert record is not None, "a reading is recorded after it was closed"
        self.counts[record.outcome] += 1
        if record.detail:
            record = dataclasses.replace(record, detail=masked(record.detail, self._secrets))
        if not self._append(self._requests, to_csv(record)):
            self.lost_rows += 1
        elif self._outputs is not None:
            chunks = [] if reading.answer is None else reading.answer.chunk_texts
            self._append(self._outputs, masked(output_line(record.request_id, chunks), self._secrets))

    def write_health(self, record: HealthRecord) -> None:
        """Keep a row of this process's own state."""
        self._append(self._health, to_csv(record))

    def _append(self, file: RowFile, row: str) -> bool:
        if self.failed is not None:
            return False
        try:
            file.append(row)
        except RecordingError as error:
            self._fail(error)
            return False
        return True

    def _fail(self, error: RecordingError) -> None:
        if self.failed is None:
            self.failed = error
            self._on_failure(error)

    def close(self) -> None:
        """Bring the rows to the disk and close the files. A disk that refuses only now is a failure like any other."""
        for file in self._files:
            try:
                file.close()
            except RecordingError as error:
                self._fail(error)
