"""Files in pieces: any split gives the file, and what is not the next piece of a worker's own file is refused in words."""

import dataclasses
import hashlib
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenswarm import incoming
from tokenswarm.incoming import Incoming
from tokenswarm.pieces import PIECE_BYTES, Piece, Refused, pieces_of
from tokenswarm.runfolder import RunFolder

NAME = "requests-w1.csv"
CONTENT = b"request_id,worker\n" + b"".join(b"%d,w1\n" % i for i in range(200))


def split(content: bytes, cuts: list[int], **changes: Any) -> list[Piece]:
    """`content` as pieces that end at `cuts`; `changes`: of each of them."""
    ends = [*sorted({cut for cut in cuts if 0 < cut < len(content)}), len(content)]
    begins = [0, *ends[:-1]]
    common = {"run_id": "r", "name": NAME, "size": len(content), **changes}
    return [
        Piece(
            offset=begin,
            data=zlib.compress(content[begin:end]),
            sha256=hashlib.sha256(content[:end]).hexdigest(),
            **common,
        )
        for begin, end in zip(begins, ends, strict=True)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, "r")


@pytest.fixture
def into(folder: RunFolder) -> Iterator[Incoming]:
    found = Incoming(folder)
    yield found
    found.close()


def names(folder: RunFolder) -> list[str]:
    return sorted(path.name for path in folder.path.iterdir())


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000), st.lists(st.integers(0, 3000), max_size=12), st.data())
def test_any_split_gives_the_file(content: bytes, cuts: list[int], data: st.DataObject) -> None:
    """Also where pieces come twice because an answer was lost; until the last one there is no file of its name."""
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder.create(Path(place), "r")
        into = Incoming(folder)
        pieces = split(content, cuts)
        for number, piece in enumerate(pieces):
            assert not folder.requests_csv("w1").exists()
            end = pieces[number + 1].offset if number + 1 < len(pieces) else len(content)
            for _ in range(data.draw(st.integers(1, 3))):
                assert into.take("w1", piece) == end
        assert folder.requests_csv("w1").read_bytes() == content
        assert names(folder) == [NAME]


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES + 77])
def test_what_a_worker_cuts_the_master_puts_together(
    tmp_path: Path, folder: RunFolder, into: Incoming, size: int
) -> None:
    import random

    own = tmp_path / NAME
    own.write_bytes(random.Random(size).randbytes(size))  # nothing to be compressed
    for piece in pieces_of(own, "r"):
        assert len(piece.data) < 1 << 20
        into.take("w1", Piece.from_dict(piece.as_dict()))
    assert folder.requests_csv("w1").read_bytes() == own.read_bytes()


def changed(number: int, **changes: Any) -> list[Piece]:
    pieces = split(CONTENT, [100, 200])
    pieces[number] = dataclasses.replace(pieces[number], **changes)
    return pieces


LONG = zlib.compress(bytes(PIECE_BYTES + 1))

REFUSED = {
    "checksum": (changed(1, sha256="0" * 64), "the checksum at byte 200 is wrong"),
    "damaged": (changed(1, data=b"\x00" * 20), "was damaged on its way"),
    "cut": (changed(1, data=zlib.compress(CONTENT[100:200])[:-5]), "is not whole"),
    "bomb": (changed(1, data=LONG), "holds more than 1000000 bytes"),
    "tail": (changed(1, data=zlib.compress(CONTENT[100:200]) + b"x"), "is not whole"),
    "gap": ([split(CONTENT, [100, 200])[number] for number in (0, 2)], "from byte 200 came where byte 100 was due"),
    "order": ([split(CONTENT, [100, 200])[number] for number in (0, 1, 0)], "from byte 0 came where byte 200 was due"),
    "middle": (split(CONTENT, [100])[1:], "from byte 100 came where byte 0 was due"),
    "larger": (changed(1, size=len(CONTENT) + 1), "announced with"),
    "more": (split(CONTENT, [100], size=150), "more than the announced 150 bytes"),
    "empty": (changed(1, data=zlib.compress(b"")), "an empty piece came after 100 of"),
    "huge": (split(CONTENT, [], size=1 << 60), "the master's disk has room for"),
    "negative": (split(CONTENT, [], size=-1), "has -1 bytes"),
    "path": (split(CONTENT, [], name="../requests-w1.csv"), "is no file of worker w1"),
    "absolute": (split(CONTENT, [], name="/tmp/requests-w1.csv"), "is no file of worker w1"),
    "other": (split(CONTENT, [], name="requests-w2.csv"), "is no file of worker w1"),
    "run.json": (split(CONTENT, [], name="run.json"), "is no file of worker w1"),
    "run": (split(CONTENT, [], run_id="yesterday"), "'yesterday' is over"),
}


@pytest.mark.parametrize(("pieces", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_leaves_nothing(folder: RunFolder, into: Incoming, pieces: list[Piece], words: str) -> None:
    with pytest.raises(Refused, match=words):
        [into.take("w1", piece) for piece in pieces]
    into.close()
    assert names(folder) == []
    assert [path.name for path in folder.path.parent.iterdir()] == ["r"]


def test_nothing_is_overwritten(folder: RunFolder, into: Incoming) -> None:
    folder.requests_csv("w1").write_text("old\n")
    with pytest.raises(Refused, match="is there already"):
        into.take("w1", split(CONTENT, [])[0])
    assert folder.requests_csv("w1").read_text() == "old\n"


def test_a_file_that_appears_in_the_meantime_is_not_overwritten(folder: RunFolder, into: Incoming) -> None:
    first, last = split(CONTENT, [100])
    into.take("w1", first)
    folder.requests_csv("w1").write_text("old\n")
    with pytest.raises(Refused, match="is there already"):
        into.take("w1", last)
    assert folder.requests_csv("w1").read_text() == "old\n"
    assert names(folder) == [NAME]


def test_whoever_does_not_record_hands_over_nothing(folder: RunFolder, into: Incoming) -> None:
    with pytest.raises(Refused, match="Only a worker that records"):
        into.take(None, split(CONTENT, [])[0])
    assert names(folder) == []


def test_a_file_begins_anew_after_a_refusal(folder: RunFolder, into: Incoming) -> None:
    pieces = split(CONTENT, [100, 200])
    into.take("w1", pieces[0])
    with pytest.raises(Refused):
        into.take("w1", pieces[2])
    for piece in pieces:
        into.take("w1", piece)
    assert folder.requests_csv("w1").read_bytes() == CONTENT


def test_a_disk_that_refuses_is_said(folder: RunFolder, into: Incoming, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(Refused, match=r"cannot be written on the master's machine: No space left on device"):
        into.take("w1", split(CONTENT, [])[0])
    assert names(folder) == []


@pytest.mark.parametrize("told", [None, [], {}, {"name": NAME}, {**split(CONTENT, [])[0].as_dict(), "offset": "0"}])
def test_odd_messages_are_answered(into: Incoming, told: Any) -> None:
    assert "do master and worker run the same TokenSwarm?" in incoming.answer(into, "w1", told)["refused"]


def test_answers(into: Incoming) -> None:
    first, last = (piece.as_dict() for piece in split(CONTENT, [100]))
    assert incoming.answer(into, "w1", first) == {"name": NAME, "taken": 100}
    assert incoming.answer(into, "w1", last) == {"name": NAME, "taken": len(CONTENT)}
    assert incoming.answer(None, "w1", last) == {"refused": "The run 'r' is over."}
