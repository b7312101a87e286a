"""Limits, stops and keys of chat requests."""

import argparse
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from tests.reach.scripted import (
    CHUNKED_HEAD,
    DONE,
    LAST_CHUNK,
    STREAM,
    Peer,
    Scripted,
    always,
    answer,
    ask,
    chatting,
    chunk,
    environment,
    event,
    until,
)
from tokenswarm.api_key import KeyCommand, KeyRing
from tokenswarm.client_options import add_client_arguments, settings_from
from tokenswarm.exchange import Limits
from tokenswarm.open_files import OTHER_FILES, check_open_files
from tokenswarm.record import ErrorClass, Outcome, RequestRecord
from tokenswarm.usage_error import UsageError

NONE = Limits(None, None, None, None)
KEY = "sk-s3cr3t-1"
REFUSED = answer(401, b'{"error": {"message": "Incorrect API key provided: %s"}}' % KEY.encode())


@pytest.fixture(autouse=True)
def no_proxies() -> Iterator[None]:
    with environment(OPENAI_API_KEY=None):
        yield


@pytest.fixture(autouse=True)
def children_of_others() -> Iterator[None]:
    """Once gevent has watched a child, it would take the exit codes of all children from those who wait for them."""
    yield
    gevent.get_hub().loop.reset_sigchld()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_client_arguments(parser)
    return parser.parse_args(words)


# -- limits ----------------------------------------------------------------------------------------------------------


def silent(peer: Peer) -> None:
    peer.request()
    peer.await_gone()


def headers_only(peer: Peer) -> None:
    peer.request()
    peer.send(CHUNKED_HEAD)
    peer.await_gone()


def commenting(peer: Peer) -> None:
    peer.request()
    peer.send(CHUNKED_HEAD)
    _talk(peer, b": processing\n\n")


def role_only(peer: Peer) -> None:
    peer.request()
    peer.send(CHUNKED_HEAD, chunk(b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'))
    peer.await_gone()


def stalling(peer: Peer) -> None:
    peer.request()
    peer.send(CHUNKED_HEAD, chunk(event()))
    peer.await_gone()


def endless(peer: Peer) -> None:
    peer.request()
    peer.send(CHUNKED_HEAD)
    _talk(peer, event())


def _talk(peer: Peer, said: bytes) -> None:
    """Says it ten times a second, until the client goes."""
    leaving = gevent.spawn(peer.await_gone)
    while not peer.gone.is_set():
        try:
            peer.send(chunk(said))
        except OSError:
            break
        gevent.sleep(0.1)
    leaving.kill()


@pytest.mark.parametrize(
    ("script", "limits", "error_class"),
    [
        (silent, Limits(None, 0.4, None, None), ErrorClass.TIMEOUT_FIRST_TOKEN),
        (headers_only, Limits(None, 0.4, 0.1, None), ErrorClass.TIMEOUT_FIRST_TOKEN),
        (commenting, Limits(None, 0.4, None, None), ErrorClass.TIMEOUT_FIRST_TOKEN),
        (role_only, Limits(None, 0.4, 0.1, None), ErrorClass.TIMEOUT_FIRST_TOKEN),
        (stalling, Limits(None, 0.1, 0.4, None), ErrorClass.TIMEOUT_STALL),
        (silent, Limits(None, None, 0.1, 0.4), ErrorClass.TIMEOUT_TOTAL),
        (stalling, Limits(None, None, None, 0.4), ErrorClass.TIMEOUT_TOTAL),
        (endless, Limits(None, 0.3, 0.3, 0.4), ErrorClass.TIMEOUT_TOTAL),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_limit(script: Any, limits: Limits, error_class: ErrorClass) -> None:
    with Scripted(script) as server, chatting(server.url, limits=limits) as (client, records):
        record = ask(client)
        assert (record.outcome, record.error_class) == (Outcome.FAILED, error_class)
        assert record.ended_us is not None
        assert 400_000 <= record.ended_us <= 700_000, record.ended_us
        assert record.detail is not None
        assert "0.4 s" in record.detail
        until(lambda: all(peer.gone.is_set() for peer in server.peers))
        assert len(records) == 1
        if script in (stalling, endless):  # a failed request keeps what it received
            assert record.chunk_us


def test_comments_keep_a_stall_from_firing() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED_HEAD, chunk(event()))
        for _ in range(10):
            gevent.sleep(0.1)
            peer.send(chunk(b": still there\n\n"))
        peer.send(chunk(event("!", "stop") + DONE), LAST_CHUNK)

    with Scripted(script) as server, chatting(server.url, limits=Limits(None, 0.6, 0.6, None)) as (client, _):
        record = ask(client)
        assert record.outcome is Outcome.OK, record
        assert len(record.chunk_us) == 2


def test_comments_keep_no_stall_from_firing_where_that_is_asked() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED_HEAD, chunk(event()))
        _talk(peer, b": still there\n\n")

    given = options("--first-token-timeout=0", "--stall-timeout=0.4", "--stall-by-token")
    limits = settings_from(given, "http://h", "m").limits
    with Scripted(script) as server, chatting(server.url, limits=limits) as (client, _):
        record = ask(client)
        assert (record.error_class, len(record.chunk_us)) == (ErrorClass.TIMEOUT_STALL, 1)
        assert record.detail == "no token for 0.4 s in mid answer"
        assert 400_000 <= (record.ended_us or 0) <= 700_000


def test_no_limits() -> None:
    given = options("--connect-timeout=0", "--first-token-timeout=0", "--stall-timeout=0", "--total-timeout=0")
    assert settings_from(given, "http://h", "m").limits == NONE
    with Scripted(always(STREAM, pause_s=0.3)) as server, chatting(server.url, limits=NONE) as (client, _):
        assert ask(client).outcome is Outcome.OK


def test_connecting_without_a_limit_of_its_own_ends_with_the_whole() -> None:
    limits = Limits(None, None, None, 0.3)
    with Scripted(silent) as server, chatting(server.https, limits=limits) as (client, _):
        assert "within 0.3 s" in (ask(client).detail or "")


# -- stops -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["waiting for an answer", "in mid answer", "in the TLS handshake"])
def test_stop(moment: str) -> None:
    script = stalling if moment == "in mid answer" else silent
    with Scripted(script) as server:
        url = server.https if moment.endswith("handshake") else server.url
        with chatting(url, limits=NONE) as (client, records):
            user = gevent.spawn(ask, client)
            if moment.endswith("handshake"):
                until(lambda: server.peers)
            elif moment == "in mid answer":
                until(lambda: [one for one in client.digest.open if one.exchange.unread])
            else:
                until(lambda: server.requests)
            user.kill()
            client.digest.drain(5)
            assert [record.outcome for record in records] == [Outcome.CANCELLED]
            assert len(records[0].chunk_us) == (moment == "in mid answer")
            until(lambda: server.peers[0].gone.is_set())
            assert not client.pool.carried


def test_stop_of_many_at_once() -> None:
    with Scripted(stalling) as server, chatting(server.url, limits=NONE) as (client, records):
        users = [gevent.spawn(ask, client) for _ in range(50)]
        until(lambda: len(server.requests) == 50)
        gevent.killall(users)
        client.digest.drain(5)
        assert [record.outcome for record in records] == [Outcome.CANCELLED] * 50
        assert len({record.request_id for record in records}) == 50
        until(lambda: all(peer.gone.is_set() for peer in server.peers))


def test_stop_after_the_end_of_the_answer_takes_nothing_back() -> None:
    with Scripted(always(STREAM)) as server, chatting(server.url) as (client, records):
        user = gevent.spawn(client.chat, [{"role": "user", "content": "x"}], user="u")
        until(lambda: [one for one in client.digest.open if one.exchange.end] or (not client.digest.open and records))
        user.kill()
        client.digest.drain(5)
        assert [record.outcome for record in records] == [Outcome.OK]


# -- keys ------------------------------------------------------------------------------------------------------------


def sent_authorization(**settings: Any) -> list[str | None]:
    """What the template and the SDK's own call send."""
    with Scripted(always(STREAM)) as server, chatting(server.url, **settings) as (client, _):
        ask(client)
        list(client.openai.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=True))
        return [request.headers.get("authorization") for request in server.requests]


def test_authorization() -> None:
    assert sent_authorization() == [None, None]
    assert sent_authorization(api_key=KEY) == [f"Bearer {KEY}"] * 2
    assert sent_authorization(headers={"Authorization": "Basic eA=="}) == ["Basic eA=="] * 2
    assert sent_authorization(headers={"Authorization": "Basic eA=="}, api_key=KEY) == ["Basic eA=="] * 2


def test_key_and_headers_of_the_command_line() -> None:
    with environment(OPENAI_API_KEY=f"  {KEY}\n"):
        given = settings_from(options("--header", "api-key: abc", "--header", "X-Team:red "), "http://h", "m")
    assert given.api_key == KEY
    assert given.headers == {"api-key": "abc", "X-Team": "red"}
    assert KEY not in repr(given)
    assert "abc" not in repr(given)
    with Scripted(always(STREAM)) as server, chatting(server.url, headers=given.headers) as (client, _):
        ask(client)
        assert (server.requests[0].headers["api-key"], server.requests[0].headers["x-team"]) == ("abc", "red")


def test_host_header_is_sent_once() -> None:
    with Scripted(always(STREAM)) as server, chatting(server.url, headers={"Host": "virtual.example"}) as (client, _):
        ask(client)
        assert [line for line in server.requests[0].lines if line.lower().startswith("host:")] == [
            "host: virtual.example"
        ]


@pytest.mark.parametrize(
    ("words", "key", "said"),
    [
        (["--header", "nonsense-s3cr3t"], None, "--header must look like"),
        (["--header", "a b: s3cr3t"], None, "--header must look like"),
        (["--header", "X: s3cr3t\r\nY: 1"], None, "--header X holds characters"),
        (["--header", "X: s3cr3té"], None, "--header X holds characters"),
        ([], "s3cr3t\nx", "OPENAI_API_KEY holds characters"),
        ([], "s3cr3té", "OPENAI_API_KEY holds characters"),
        (["--client-key", "k.pem"], None, "--client-cert"),
        (["--stall-timeout", "-1"], None, "0 or more"),
        (["--total-timeout", "nan"], None, "0 or more"),
        (["--api-key-command", "exit 3"], None, "exit code 3"),
        (["--extra-body", "{"], None, "--extra-body is no JSON"),
        (["--extra-body", "[1]"], None, "must be a JSON object"),
        (["--extra-body", '{"stream": false}'], None, "--extra-body cannot hold 'stream': every answer is streamed"),
        (["--extra-body", '{"messages": []}'], None, "cannot hold 'messages'"),
        (["--extra-body", '{"model": "x"}'], None, "name it with MODEL=… (--model)"),
        (["--extra-body", '{"max_tokens": 3}'], None, "MAX_TOKENS=… (--max-tokens)"),
        (["--extra-body", '{"max_completion_tokens": 3}'], None, "MAX_TOKENS=… (--max-tokens)"),
    ],
)
def test_options_that_cannot_be_used(words: list[str], key: str | None, said: str) -> None:
    with environment(OPENAI_API_KEY=key), pytest.raises(UsageError) as raised:
        settings_from(options(*words), "http://h", "m")
    assert said in str(raised.value)
    assert "s3cr3t" not in str(raised.value)


# -- a command for keys ----------------------------------------------------------------------------------------------


def test_key_command_runs_before_the_load_and_goes_before_the_variable() -> None:
    with environment(OPENAI_API_KEY="other"):
        given = settings_from(
            options("--api-key-command", f"echo {KEY}; echo more", "--api-key-period", "60"), "http://h", "m"
        )
    assert given.api_key == KEY
    assert given.key_command is not None
    assert given.key_command.every_s == 60
    assert KEY not in repr(given)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo out-s3cr3t; echo the words >&2; exit 4", "--api-key-command ended with exit code 4: the words"),
        ("echo s3cr3t; echo bad s3cr3t >&2; exit 1", "ended with exit code 1: bad ***"),
        ("true", "--api-key-command printed nothing"),
        ("no-such-command-here", "exit code 127"),
        ("sleep 60 & sleep 60; echo s3cr3t", "printed no key within 0.3 s"),
    ],
)
def test_key_command_that_fails(command: str, said: str) -> None:
    began = time.monotonic()
    with pytest.raises(UsageError) as raised:
        KeyCommand(command, limit_s=0.3 if "sleep" in command else 20).run()
    assert said in str(raised.value)
    assert "s3cr3t" not in str(raised.value)
    assert time.monotonic() - began < 20


def counting(folder: Path) -> KeyCommand:
    """Prints key-1, key-2, …"""
    file = folder / "count"
    return KeyCommand(f"n=$(cat {file} 2>/dev/null || echo 1); echo $((n + 1)) > {file}; echo key-$n", every_s=None)


def test_a_401_brings_a_fresh_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request that got it stays a failure and is not sent again; later ones bear the new key, the SDK's own too."""
    monkeypatch.setattr("tokenswarm.api_key.PAUSE_S", 0.0)

    def script(peer: Peer) -> None:
        while (request := peer.request()) is not None:
            peer.send(STREAM if request.headers["authorization"] == "Bearer key-2" else REFUSED)

    command = counting(tmp_path)
    with (
        Scripted(script) as server,
        chatting(server.url, api_key=command.run(), key_command=command) as (client, records),
    ):
        assert ask(client).error_class is ErrorClass.AUTH
        assert len(server.requests) == 1
        until(lambda: client.settings.api_key == "key-2")
        assert ask(client).outcome is Outcome.OK
        list(client.openai.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=True))
        told = [request.headers["authorization"] for request in server.requests]
        assert told == ["Bearer key-1", "Bearer key-2", "Bearer key-2"]
        assert set(client.secrets) == {"key-1", "key-2"}
        assert len(records) == 2
    assert (tmp_path / "count").read_text() == "3\n"


def test_key_is_renewed_by_the_clock_and_a_burst_of_401_runs_the_command_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenswarm.api_key.PAUSE_S", 0.2)
    keys: list[str] = []
    command = counting(tmp_path)
    ring = KeyRing(None, KeyCommand(command.command, every_s=0.4), keys.append)
    for _ in range(20):
        ring.renew()
    until(lambda: keys == ["key-1"])
    until(lambda: keys == ["key-1", "key-2"])  # nobody asked: its time had come
    ring.close()


def test_key_command_that_fails_during_the_load(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tokenswarm.api_key.PAUSE_S", 0.0)
    command = KeyCommand("echo s3cr3t; exit 1", every_s=None)
    with (
        Scripted(always(REFUSED)) as server,
        chatting(server.url, api_key=KEY, key_command=command) as (client, records),
    ):
        with caplog.at_level(logging.WARNING):
            ask(client)
            until(lambda: caplog.records)
            ask(client)
        assert client.settings.api_key == KEY
    assert [record.error_class for record in records] == [ErrorClass.AUTH] * 2
    assert "the API key stays as it is: --api-key-command ended with exit code 1" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_the_command_does_not_keep_streams_from_being_read(tmp_path: Path) -> None:
    """While it runs (half a second), a stream's tokens are read as they come."""

    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED_HEAD)
        for _ in range(40):
            peer.send(chunk(event()))
            gevent.sleep(0.01)
        peer.send(chunk(event("!", "stop") + DONE), LAST_CHUNK)

    with Scripted(script) as server, chatting(server.url) as (client, _):
        user = gevent.spawn(ask, client)
        until(lambda: server.requests)
        assert KeyCommand("sleep 0.5; echo k").run() == "k"
        record: RequestRecord = user.get(timeout=20)
        assert record.coalesced is not None
        assert record.coalesced < 20  # all 41 would be in one read, were nothing read while it runs


# -- no secrets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [["--no-preflight"], []], ids=["record", "preflight"])
def test_the_key_is_in_no_output(more: list[str]) -> None:
    """Though the server echoes it."""
    words = ["--model", "m", *more]
    with Scripted(always(REFUSED)) as server, environment(OPENAI_API_KEY=KEY):
        command = [
            sys.executable,
            "-m",
            "tokenswarm.probe",
            f"http://u:pw5@127.0.0.1:{server.port}",
            *words,
            "--no-preflight",
        ]
        done = gevent.get_hub().threadpool.apply(
            subprocess.run, (command,), {"capture_output": True, "text": True, "timeout": 60}
        )
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert done.stdout + done.stderr
    assert KEY not in done.stdout + done.stderr
    assert "pw5" not in done.stdout + done.stderr


# -- open files ------------------------------------------------------------------------------------------------------


def test_limit_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    check_open_files(1024 - OTHER_FILES)
    check_open_files(2 * (1024 - OTHER_FILES), processes=2)
    with pytest.raises(
        UsageError, match=r"5000 users need .* limit is 1024: .*sudo prlimit --pid \$\$ --nofile=5100:5100"
    ):
        check_open_files(5000)
    with pytest.raises(UsageError, match=r"with: ulimit -n 2100;"):
        check_open_files(1000, targets=2)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    check_open_files(10**6)
