"""Compressed bodies are read as they arrive, in bounded memory, whatever their header says."""

import gzip
import zlib
from typing import Any

import brotli
import pytest

from tests.streamed import DONE, STOP, read, warned, words
from tokenswarm.errors import End, classify
from tokenswarm.record import Caution, ErrorClass
from tokenswarm.sse import LINE_LIMIT_BYTES, LineTooLong


def deflate(data: bytes, wbits: int) -> bytes:
    squeezer = zlib.compressobj(wbits=wbits)
    return squeezer.compress(data) + squeezer.flush()


ENCODED = [
    ("gzip", gzip.compress),
    ("x-gzip", lambda data: gzip.compress(data[:99]) + gzip.compress(data[99:])),
    (None, gzip.compress),  # nobody said so
    ("deflate", lambda data: deflate(data, 15)),
    ("deflate", lambda data: deflate(data, -15)),
    ("br", brotli.compress),
]


@pytest.mark.parametrize(("encoding", "squeeze"), ENCODED)
def test_encoded_streams(encoding: str | None, squeeze: Any) -> None:
    data = squeeze("".join([*words(*"déjà vu"), STOP, DONE]).encode())
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))]):
        answer = read(pieces, "text/event-stream", encoding)
        assert (answer.text, answer.done_seen, answer.unreadable) == ("déjà vu", True, None)
        assert Caution.COMPRESSED_STREAM in warned(answer)


def test_each_flush_of_an_encoded_stream_has_its_own_mark() -> None:
    squeezer = zlib.compressobj(wbits=31)
    reads = [squeezer.compress(text.encode()) + squeezer.flush(zlib.Z_SYNC_FLUSH) for text in (*words("a", "b"), DONE)]
    assert read(reads, None, "gzip").chunk_marks == [1, 2]


@pytest.mark.parametrize("encoding", ["identity", "gzip", "deflate", "br"])
def test_a_plain_body_whose_encoding_lies(encoding: str) -> None:
    answer = read([*words("a"), STOP, DONE], None, encoding)
    assert (answer.text, answer.compressed) == ("a", False)


@pytest.mark.parametrize(("encoding", "data"), [("zstd", b"\x28\xb5\x2f\xfd"), ("gzip", b"\x1f\x8b\x00broken!")])
def test_what_cannot_be_decoded_says_so(encoding: str, data: bytes) -> None:
    verdict = classify(End.COMPLETE, 200, read([data, data], None, encoding), None)
    assert verdict.error_class is ErrorClass.MALFORMED_STREAM
    assert encoding in (verdict.detail or "")


@pytest.mark.parametrize(("encoding", "squeeze"), ENCODED)
@pytest.mark.parametrize("fill", [b"\0", b": x\n", b"data:\n\n"])
def test_a_read_that_grows_without_measure_is_refused(encoding: str | None, squeeze: Any, fill: bytes) -> None:
    """A read of 64 kB can hold 64 MB, or more than memory."""
    bomb = squeeze(fill * (4 * LINE_LIMIT_BYTES // len(fill)))
    with pytest.raises(LineTooLong, match="decompressed"):
        read([bomb[at : at + 65536] for at in range(0, len(bomb), 65536)], None, encoding)


def test_a_whole_answer_in_one_compressed_read_is_none_too_large() -> None:
    data = gzip.compress("".join([*words(*["the "] * 20_000), STOP, DONE]).encode())
    assert len(read([data], None, "gzip").chunk_marks) == 20_000
