"""The truth log: one JSON line for each chat request, written and flushed when the request has ended.

What a client measured can be held against it. All `*_ns` are epoch nanoseconds of this machine's clock.
"""

from pathlib import Path
from typing import BinaryIO

import msgspec

OK = "ok"
REJECTED = "rejected"  # an error status that the request itself or the full queue brought about
DISCONNECTED = "disconnected"  # the client went away
SHUTDOWN = "shutdown"  # the server was stopped in mid answer


class TruthRecord(msgspec.Struct, kw_only=True):
    """What happened to one request. `outcome` is one of the words above or the kind of the (first) fault.

    `chunk_ns` and `chunk_tokens` have one entry for each chunk that carries text, `chunk_ns` taken just before its
    write. The end-of-message token has no text: it counts in `output_tokens`, and in `chunk_tokens` only where it
    shares a chunk with text. `output_tokens` is what the engine handed out, written or not.
    """

    request_id: str
    arrived_at: float  # epoch s: the first bytes of the request were read
    streamed: bool = False
    http_status: int | None = None  # None: no answer was begun
    role_ns: int | None = None
    chunk_ns: list[int] = []
    chunk_tokens: list[int] = []
    finish_ns: int | None = None  # write of the chunk with finish_reason, or of the whole body where not streamed
    ended_at: float | None = None
    finish_reason: str | None = None
    max_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    preemptions: int | None = None
    faults: list[str] = []
    outcome: str = OK


class TruthLog:
    """Appends records to a file, or nowhere when there is no path."""

    def __init__(self, path: Path | None) -> None:
        self._file: BinaryIO | None = path.open("ab") if path is not None else None

    def write(self, record: TruthRecord) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(record) + b"\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
