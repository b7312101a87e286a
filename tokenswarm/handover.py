"""At a worker that does not see the run's folder: its files go to the master, piece by piece, after the load."""

import contextlib
from collections.abc import Callable
from typing import Any

import gevent
from gevent.event import AsyncResult
from locust.exception import RPCError

from tokenswarm.pieces import PIECE_BYTES, Piece, pieces_of
from tokenswarm.runfolder import RunFolder

ANSWER_LIMIT_S = 10.0  # then the piece is sent again: a connection that broke and came back has lost messages
TRIES = 3


class HandoverError(Exception):
    """The master has not all files; ours are whole. Its text says why, for a person."""


class Handover:
    """`send` sends a message to the master; `answered` is to be called with each answer. One piece is under way at a time:
    so memory is bounded at both ends, and heartbeats pass between pieces."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._due: tuple[str, int] | None = None
        self._answer = AsyncResult()

    def answered(self, told: Any) -> None:
        if "refused" in told or (told["name"], told["taken"]) == self._due:  # else: of a piece that was sent twice
            self._answer.set(told)

    def hand_over(self, folder: RunFolder, worker: str, run_id: str) -> None:
        """All files of `worker` in `folder`; when the master has them, the folder is removed. Raises HandoverError.

        What the master has said to have is checked and on its disk, and a second copy would be taken for a run of its own.
        """
        files = [path for path in folder.files_of(worker) if path.exists()]
        try:
            for path in files:
                for piece in pieces_of(path, run_id):
                    self._deliver(piece)
        except OSError as error:
            raise HandoverError(f"{error.filename}: {error.strerror}.") from error
        with contextlib.suppress(OSError):  # somebody has put something there, say: it stays
            for path in files:
                path.unlink()
            folder.path.rmdir()

    def _deliver(self, piece: Piece) -> None:
        self._due = (piece.name, min(piece.offset + PIECE_BYTES, piece.size))
        for _ in range(TRIES):
            self._answer = AsyncResult()
            try:
                self._send(piece.as_dict())
                told = self._answer.get(timeout=ANSWER_LIMIT_S)
            except (gevent.Timeout, RPCError):
                continue
            if "refused" in told:
                raise HandoverError(told["refused"])
            return
        raise HandoverError(f"The master has not answered for {TRIES * ANSWER_LIMIT_S:.0f} s.")
