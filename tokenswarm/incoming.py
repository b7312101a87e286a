"""At the master: files that workers on other machines hand over, piece by piece, into the run's folder.

A file has a temporary name until it is whole, its checksum is right and the disk has it; only then has it its own.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import gevent

from tokenswarm.pieces import Piece, Refused
from tokenswarm.runfolder import RunFolder

SPARE_BYTES = 64 << 20  # stay free on the master's disk, for its own files


class Place(NamedTuple):
    """The end of what was taken: of a piece that comes again, because its answer was lost, both are the same."""

    offset: int
    sha256: str


class IncomingFile:
    """One file that is not whole yet. Raises OSError where the disk does not take it."""

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size, self.received = path, size, 0
        self.waiting = path.with_name(f".{path.name}.part")
        self._digest = hashlib.sha256()
        self._file = open(self.waiting, "wb")  # noqa: SIM115 it stays open between pieces

    def add(self, content: bytes, sha256: str) -> None:
        """Raises Refused where the checksum is another one; nothing is written then."""
        digest = self._digest.copy()
        digest.update(content)
        if digest.hexdigest() != sha256:
            raise Refused(f"{self.path.name}: the checksum at byte {self.received + len(content)} is wrong.")
        self._file.write(content)
        self._digest, self.received = digest, self.received + len(content)

    def finish(self) -> None:
        """Bring it to the disk under its own name. Raises Refused where that is taken."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        if self.path.exists():
            raise Refused(f"{self.path.name} is there already; nothing is overwritten.")
        self.waiting.rename(self.path)

    def drop(self) -> None:
        self._file.close()
        self.waiting.unlink(missing_ok=True)


class Incoming:
    """All files that are handed over to one run. `close` removes what never became whole."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._open: dict[str, IncomingFile] = {}
        self._taken: dict[str, Place] = {}  # by file name

    def take(self, worker: str | None, piece: Piece) -> int:
        """Keep `piece`, sent by `worker` (None: by nobody who records in this run). Bytes taken of its file so far.

        A piece whose answer was lost may come again: it is not written twice. Raises Refused for all that is not the
        next piece of a file that this worker can have; the file begins anew then.
        """
        self._check(worker, piece)
        content = piece.content()
        place = Place(piece.offset + len(content), piece.sha256)
        if self._taken.get(piece.name) == place:
            return place.offset
        try:
            self._write(piece, content)
        except Refused:
            self._drop(piece.name)
            raise
        except OSError as error:
            self._drop(piece.name)
            raise Refused(f"{piece.name} cannot be written on the master's machine: {error.strerror}.") from error
        self._taken[piece.name] = place
        return place.offset

    def _check(self, worker: str | None, piece: Piece) -> None:
        if piece.run_id != self._folder.run_id:
            raise Refused(f"The run {piece.run_id!r} is over: the present one is {self._folder.run_id!r}.")
        if worker is None:
            raise Refused("Only a worker that records in this run can hand over its files.")
        if piece.name not in [path.name for path in self._folder.files_of(worker)]:
            raise Refused(f"{piece.name!r} is no file of worker {worker}.")

    def _write(self, piece: Piece, content: bytes) -> None:
        file = self._open.get(piece.name) or self._begin(piece)
        if piece.size != file.size:
            raise Refused(f"{piece.name} was announced with {file.size} bytes, and is now said to have {piece.size}.")
        if piece.offset != file.received:
            raise Refused(f"{piece.name}: a piece from byte {piece.offset} came where byte {file.received} was due.")
        if piece.offset + len(content) > file.size:
            raise Refused(f"{piece.name}: more than the announced {file.size} bytes came.")
        if not content and file.size:
            raise Refused(f"{piece.name}: an empty piece came after {file.received} of {file.size} bytes.")
        file.add(content, piece.sha256)
        if file.received == file.size:
            file.finish()
            del self._open[piece.name]

    def _begin(self, piece: Piece) -> IncomingFile:
        path = self._folder.path / piece.name
        if path.exists():
            raise Refused(f"{piece.name} is there already; nothing is overwritten.")
        free = shutil.disk_usage(self._folder.path).free - SPARE_BYTES
        if not 0 <= piece.size <= free:
            raise Refused(f"{piece.name} has {piece.size} bytes; the master's disk has room for {max(free, 0)}.")
        file = self._open[piece.name] = IncomingFile(path, piece.size)
        return file

    def _drop(self, name: str) -> None:
        file = self._open.pop(name, None)
        if file is not None:
            file.drop()
            self._taken.pop(name, None)

    def close(self) -> None:
        """The run is over."""
        for name in list(self._open):
            self._drop(name)


def answer(incoming: Incoming | None, worker: str | None, told: Any) -> dict[str, Any]:
    """What the master says to a piece: how much it has of the file now, or why it does not take it."""
    gevent.sleep(0)  # many workers hand over at once: heartbeats are answered between their pieces
    try:
        piece = Piece.from_dict(told)
        if incoming is None:
            raise Refused(f"The run {piece.run_id!r} is over.")
        return {"name": piece.name, "taken": incoming.take(worker, piece)}
    except Refused as refusal:
        return {"refused": str(refusal)}
