"""The usual chunk of a chat completion, with its types: what is anything else is read with more care."""

from collections.abc import Callable
from typing import Any

import msgspec

from tokenswarm.choice import Delta


class ChunkChoice(msgspec.Struct, gc=False):
    delta: Delta
    index: int = 0
    finish_reason: str | None = None
    error: Any = None
    usage: Any = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[ChunkChoice]
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: Any = None


# raises msgspec.MsgspecError, UnicodeDecodeError or RecursionError for what is no usual chunk
decode_chunk: Callable[[bytes], Chunk] = msgspec.json.Decoder(Chunk).decode
