"""Undoing a body's content-encoding while it arrives."""

import importlib
import zlib
from collections.abc import Callable

Decoder = Callable[[bytes], bytes]  # decompresses as bytes come: a token must not wait for the next one


def _gzip() -> Decoder:
    inner = zlib.decompressobj(wbits=31)

    def decompress(data: bytes) -> bytes:
        nonlocal inner
        out = b""
        while data:
            out += inner.decompress(data)
            data = inner.unused_data
            if inner.eof and data:  # another member follows
                if not data.strip(b"\0"):
                    break
                inner = zlib.decompressobj(wbits=31)
        return out

    return decompress


def decoder(encoding: str, head: bytes) -> Decoder | None:
    """What undoes `encoding`; None where the body is plain, whatever the header says. Raises ValueError if unknown."""
    if head[:2] == b"\x1f\x8b":
        return _gzip()
    if encoding in ("", "identity", "none") or encoding in ("gzip", "x-gzip"):  # no gzip without its magic number
        return None
    if head[:1] in b"d:{[<" and head[:5].strip() in (b"data:", b"data", b"{", b"<html"):
        return None
    if encoding == "deflate":  # zlib by the book, raw by habit
        is_zlib = head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
        return zlib.decompressobj(15 if is_zlib else -15).decompress
    if encoding == "br":
        try:
            brotli = importlib.import_module("brotli")
        except ImportError:
            raise ValueError("content-encoding br cannot be read here: install brotli, or ask for identity") from None
        return brotli.Decompressor().process
    raise ValueError(f"content-encoding {encoding} cannot be read: ask the server for identity")
