"""A file that whole rows are appended to, and nothing else.

A row is one physical line, ended by "\\n", handed to the kernel in ONE write when it is complete; nothing is buffered
in this process. What the disk does not take whole is taken back, so a full disk leaves whole rows.

A killed process can still leave the front part of its last row: Linux stops a write at a page boundary when SIGKILL
arrives (seen on ext4: half of the kills during 9 kB rows). A row is whole exactly if its line end is there, so readers
stop at `whole_size`, and `cut_torn_row` repairs a file whose writer is gone.
"""

import os
from pathlib import Path

TAIL_BYTES = 65536  # how much is looked at at a time when searching backwards for a line end


class RecordingError(Exception):
    """What happened can no longer be written down. Its text is one sentence or two for a person."""


class RowFile:
    """An append-only file of whole rows, made new. One writer.

    Raises FileExistsError where `path` is taken, RecordingError where it cannot be made.
    """

    def __init__(self, path: Path, header: str) -> None:
        self.path = path
        self.rows = 0  # whole rows in the file, its header not counted
        self._size = 0  # of what is whole, in bytes
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise
        except OSError as error:
            raise RecordingError(f"{path} cannot be made: {error.strerror}. Make its folder writable.") from error
        if header:
            try:
                self._write(header)
            except RecordingError:
                os.close(self._fd)
                path.unlink(missing_ok=True)
                raise

    def append(self, row: str) -> None:
        """Add `row`, its "\\n" included. Raises RecordingError, and then nothing of the row is in the file."""
        self._write(row)
        self.rows += 1

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")  # a lone surrogate is no reason to lose a row
        try:
            written = os.write(self._fd, data)
        except OSError as error:
            raise self._rolled_back(error.strerror or str(error)) from error
        if written < len(data):
            raise self._rolled_back("the disk is full or a size limit is reached")
        self._size += written

    def _rolled_back(self, reason: str) -> RecordingError:
        whole = f"The {self.rows} rows before it are whole and can be analysed"
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as error:
            whole = f"{self.rows} rows are whole; the line after them is not ({error.strerror}) and will be left out"
        return RecordingError(
            f"{self.path}: a row could not be written: {reason}. {whole}; make room there and run again."
        )

    def close(self) -> None:
        """Bring the rows to the disk. Raises RecordingError where the disk (a network share, say) refuses only now."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise RecordingError(
                f"{self.path}: the disk did not take all rows: {error.strerror}. Look at the last of its {self.rows} "
                "rows before trusting this run; make room there and run again."
            ) from error


def whole_size(path: Path) -> int:
    """Bytes of `path` up to the end of its last whole row; what follows is the front part of a row."""
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - TAIL_BYTES)
            file.seek(start)
            at = file.read(end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
    return 0


def cut_torn_row(path: Path) -> int:
    """Cut off what a killed writer left of its last row; how many bytes that were. Only when the writer is gone."""
    torn = os.path.getsize(path) - whole_size(path)
    if torn:
        os.truncate(path, whole_size(path))
    return torn
