"""Undoing a body's content-encoding while it arrives, in bounded memory."""

import importlib
import zlib
from collections.abc import Callable

from tokenswarm.sse import LINE_LIMIT_BYTES, LineTooLong

Decoder = Callable[[bytes], bytes]  # decompresses as bytes come: a token must not wait for the next one

# What one read may grow to. The stream of a model that repeats one token shrinks to about a hundredth; a read of 64 kB
# that grows more was made to fill somebody's memory.
GROWN_LIMIT_BYTES = LINE_LIMIT_BYTES


def _grown_too_large() -> LineTooLong:
    return LineTooLong(f"one read of the body is longer than {GROWN_LIMIT_BYTES} bytes when decompressed")


def _gzip() -> Decoder:
    inner = zlib.decompressobj(wbits=31)

    def decompress(data: bytes) -> bytes:
        nonlocal inner
        out = b""
        while data:
            out += inner.decompress(data, GROWN_LIMIT_BYTES + 1 - len(out))
            if len(out) > GROWN_LIMIT_BYTES:
                raise _grown_too_large()
            data = inner.unused_data
            if inner.eof and data:  # another member follows
                if not data.strip(b"\0"):
                    break
                inner = zlib.decompressobj(wbits=31)
        return out

    return decompress


def _deflate(wbits: int) -> Decoder:
    inner = zlib.decompressobj(wbits)

    def decompress(data: bytes) -> bytes:
        out = inner.decompress(data, GROWN_LIMIT_BYTES + 1)
        if len(out) > GROWN_LIMIT_BYTES:
            raise _grown_too_large()
        return out

    return decompress


def _brotli() -> Decoder:
    try:
        inner = importlib.import_module("brotli").Decompressor()
    except ImportError:
        raise ValueError("content-encoding br cannot be read here: install brotli, or ask for identity") from None

    def decompress(data: bytes) -> bytes:
        out: bytes = inner.process(data, output_buffer_limit=GROWN_LIMIT_BYTES)
        if not inner.can_accept_more_data():
            raise _grown_too_large()
        return out

    return decompress


def decoder(encoding: str, head: bytes) -> Decoder | None:
    """What undoes `encoding`; None where the body is plain, whatever the header says. Raises ValueError if unknown.

    The decoder itself raises LineTooLong for a read that grows beyond GROWN_LIMIT_BYTES, and its library's own error for
    what is not encoded so.
    """
    if head[:2] == b"\x1f\x8b":
        return _gzip()
    if encoding in ("", "identity", "none") or encoding in ("gzip", "x-gzip"):  # no gzip without its magic number
        return None
    if head[:1] in b"d:{[<" and head[:5].strip() in (b"data:", b"data", b"{", b"<html"):
        return None
    if encoding == "deflate":  # zlib by the book, raw by habit
        is_zlib = head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
        return _deflate(15 if is_zlib else -15)
    if encoding == "br":
        return _brotli()
    raise ValueError(f"content-encoding {encoding} cannot be read: ask the server for identity")
