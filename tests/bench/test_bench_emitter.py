"""The emitter tells the truth: what a plain socket receives was written after it was asked for and before it was read."""

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import native
from bench.processes import BenchError, Emitter, Place, emitter, run_client
from bench.truth import read_token

LIMIT_S = 20.0
ANYWHERE = Place((), 0)
CONTENT = re.compile(rb'"content":"([^"]*)"')


@pytest.fixture(params=["c", "python"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """The C emitter, or None for the one in Python."""
    if request.param == "python":
        return None
    found = native.compiled("emitter", tmp_path)
    if found is None:
        pytest.skip("no C compiler here")
    return found


@contextlib.contextmanager
def connected(running: Emitter) -> Iterator[socket.socket]:
    port = int(running.url.rsplit(":", 1)[1].split("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as sock:
        yield sock


def request(tokens: int) -> bytes:
    body = json.dumps({"model": "bench", "messages": [], "max_tokens": tokens}).encode()
    return b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


def answer(sock: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n0\r\n\r\n"):
        more = sock.recv(65536)
        assert more, f"the emitter hung up after {data[-200:]!r}"
        data += more
    return data


def test_tokens_were_written_after_they_were_asked_for_and_before_they_were_read(program: Path | None) -> None:
    with emitter(program, 200.0, ANYWHERE) as running, connected(running) as sock:
        for tokens in (5, 1):  # twice on one connection
            before_ns = time.time_ns()
            sock.sendall(request(tokens))
            data = answer(sock)
            after_ns = time.time_ns()
            found = [read_token(text.decode()) for text in CONTENT.findall(data)]
            assert len(found) == tokens
            assert found[0].received_ns is not None
            times = [before_ns, found[0].received_ns, *[token.written_ns for token in found], after_ns]
            assert times == sorted(times)
            assert [token.received_ns for token in found[1:]] == [None] * (tokens - 1)
            assert data.count(b"data: [DONE]\n\n") == 1
            assert b'"completion_tokens":%d,' % tokens in data
    assert running.did["tokens"] == 6
    assert running.did["blocked"] == 0


def test_each_chunk_is_framed_with_its_length(program: Path | None) -> None:
    with emitter(program, 500.0, ANYWHERE) as running, connected(running) as sock:
        sock.sendall(request(3))
        _, _, body = answer(sock).partition(b"\r\n\r\n")
    sizes = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        sizes.append(int(size, 16))
        assert rest[sizes[-1] : sizes[-1] + 2] == b"\r\n"
        body = rest[sizes[-1] + 2 :]
    assert len(sizes) == 5  # three tokens, the end, the empty chunk
    assert sizes[-1] == 0


@pytest.mark.parametrize("rate", [100.0, 5000.0])
def test_tokens_come_no_faster_than_they_should(program: Path | None, rate: float) -> None:
    with emitter(program, rate, ANYWHERE) as running, connected(running) as sock:
        sock.sendall(request(12))
        found = [read_token(text.decode()) for text in CONTENT.findall(answer(sock))]
    # the first may be late by up to a tick, whatever the machine does; and time.time may be slewed a little
    assert (found[-1].written_ns - found[0].written_ns) / 1e9 >= 9.9 / rate


def test_streams_get_their_tokens_in_the_same_tick(program: Path | None) -> None:
    with emitter(program, 20.0, ANYWHERE) as running, connected(running) as one, connected(running) as other:
        one.sendall(request(8))
        other.sendall(request(8))
        answer(one), answer(other)
    assert running.did["tokens"] == 16
    assert running.did["ticks"] <= 12  # not one for each token: some slack for requests that fall into different ticks


def test_a_client_that_leaves_ends_only_its_own_stream(program: Path | None) -> None:
    with emitter(program, 100.0, ANYWHERE) as running, connected(running) as staying:
        with connected(running) as leaving:
            leaving.sendall(request(100_000))
            assert leaving.recv(65536)
        staying.sendall(request(3))
        assert len(CONTENT.findall(answer(staying))) == 3


def test_an_emitter_that_does_not_start_is_told_of(tmp_path: Path) -> None:
    broken = tmp_path / "emitter"
    broken.write_text("#!/bin/sh\necho no\n")
    broken.chmod(0o755)
    with pytest.raises(BenchError, match="said 'no"), emitter(broken, 1.0, ANYWHERE):
        pass


def test_a_client_that_fails_or_hangs_is_told_of() -> None:
    with pytest.raises(BenchError, match="it broke"):
        run_client(["sh", "-c", "echo it broke >&2; exit 1"], ANYWHERE, LIMIT_S)
    with pytest.raises(BenchError, match=r"within 0\.1 s"):
        run_client(["sleep", "60"], ANYWHERE, 0.1)


def test_without_a_compiler_there_is_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert native.compiled("emitter", tmp_path) is None
