"""A file of rows in pieces that fit into messages: each small, compressed, and sure of what it is and where it belongs."""

import dataclasses
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MESSAGE = "tokenswarm_piece"  # a worker sends a piece, the master answers
PIECE_BYTES = 1_000_000  # of the file; even where it cannot be compressed, the message stays below 1 MiB
LEVEL = 1  # rows of digits: higher levels take several times as long for little


class Refused(Exception):
    """A piece that is not taken. Its text says why, for a person."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Bytes of a worker's file from `offset` on. `sha256`: of the file from its start to the end of this piece."""

    run_id: str
    name: str  # of the file
    size: int  # of the whole file, bytes
    offset: int  # bytes
    data: bytes  # compressed
    sha256: str

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(plain: Any) -> "Piece":
        """Raises Refused where it is none: what comes by the network is believed nothing."""
        kinds = {field.name: field.type for field in dataclasses.fields(Piece)}
        if not isinstance(plain, dict) or plain.keys() != kinds.keys():
            raise Refused("This is no piece of a file; do master and worker run the same TokenSwarm?")
        for name, kind in kinds.items():
            if type(plain[name]) is not kind:
                raise Refused(
                    f"The {name} of a piece is of the wrong type; do master and worker run the same TokenSwarm?"
                )
        return Piece(**plain)

    def content(self) -> bytes:
        """The bytes themselves, at most PIECE_BYTES. Raises Refused, and never holds more than that."""
        reader = zlib.decompressobj()
        try:
            found = reader.decompress(self.data, PIECE_BYTES + 1)
        except zlib.error as error:
            raise Refused(f"A piece of {self.name} was damaged on its way ({error}).") from None
        if len(found) > PIECE_BYTES or not reader.eof or reader.unused_data:
            raise Refused(f"A piece of {self.name} is not whole, or holds more than {PIECE_BYTES} bytes.")
        return found


def pieces_of(path: Path, run_id: str) -> Iterator[Piece]:
    """`path`, whose writer is done, from its start to its end; an empty file is one empty piece. Raises OSError."""
    digest, offset = hashlib.sha256(), 0
    with open(path, "rb") as file:
        size = path.stat().st_size
        while True:
            content = file.read(min(PIECE_BYTES, size - offset))
            digest.update(content)
            yield Piece(
                run_id=run_id,
                name=path.name,
                size=size,
                offset=offset,
                data=zlib.compress(content, LEVEL),
                sha256=digest.hexdigest(),
            )
            offset += len(content)
            if offset >= size or not content:
                return
