"""The openai SDK over our connections: its behaviour and its exceptions."""

from collections.abc import Iterator

import gevent
import httpx2
import openai
import pytest

from tests.reach.scripted import (
    CHUNKED_HEAD,
    DONE,
    LAST_CHUNK,
    MESSAGES,
    STREAM,
    Peer,
    Scripted,
    always,
    answer,
    chatting,
    chunk,
    environment,
    event,
    open_files,
    until,
    unused_port,
)
from tests.servers import simulator_server

WHOLE = (
    b'{"id":"1","object":"chat.completion","created":1,"model":"m","choices":'
    b'[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hi you"}}]}'
)
MODELS = b'{"object":"list","data":[{"id":"a","object":"model","created":1,"owned_by":"x"},{"id":"b"}]}'


@pytest.fixture(autouse=True)
def no_proxies() -> Iterator[None]:
    with environment(OPENAI_API_KEY=None):
        yield


def told(client: openai.OpenAI) -> str:
    stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
    return "".join(part.choices[0].delta.content or "" for part in stream)


def test_streamed() -> None:
    with Scripted(always(STREAM)) as server, chatting(server.url) as (client, _):
        assert told(client.openai) == "Hi you"
        assert server.requests[0].headers["accept-encoding"] == "identity"


def test_targets_take_turns() -> None:
    """Each time that the client is asked for; one that is kept stays with its target."""
    with Scripted(always(STREAM)) as one, Scripted(always(STREAM)) as two:
        with chatting(one.url, two.url) as (client, _):
            for _ in range(4):
                told(client.openai)
            assert [len(server.requests) for server in (one, two)] == [2, 2]
            kept = client.openai
            for _ in range(3):
                told(kept)
        assert [len(server.requests) for server in (one, two)] == [5, 2]
        assert [len(server.peers) for server in (one, two)] == [1, 1]


def test_not_streamed_and_models() -> None:
    def script(peer: Peer) -> None:
        while (request := peer.request()) is not None:
            peer.send(answer(200, MODELS if request.method == "GET" else WHOLE))

    with Scripted(script) as server, chatting(server.url) as (client, _):
        whole = client.openai.chat.completions.create(model="m", messages=MESSAGES)
        assert whole.choices[0].message.content == "Hi you"
        assert [model.id for model in client.openai.models.list()] == ["a", "b"]
        assert [request.target for request in server.requests] == ["/v1/chat/completions", "/v1/models"]
        assert len(server.peers) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_status_exceptions_and_no_hidden_retry(status: int, kind: type[openai.APIStatusError]) -> None:
    said = answer(status, b'{"error": {"message": "the words"}}')
    with Scripted(always(said)) as server, chatting(server.url) as (client, _):
        with pytest.raises(kind, match="the words"):
            told(client.openai)
        assert len(server.requests) == 1


def test_connection_refused() -> None:
    with (
        chatting(f"http://127.0.0.1:{unused_port()}") as (client, _),
        pytest.raises(openai.APIConnectionError) as raised,
    ):
        told(client.openai)
    assert isinstance(raised.value.__cause__, httpx2.ConnectError)
    assert "Connection refused" in str(raised.value.__cause__)
    assert not isinstance(raised.value, openai.APITimeoutError)


def test_connecting_takes_too_long() -> None:
    def script(peer: Peer) -> None:
        peer.await_gone()

    with Scripted(script) as server, chatting(server.https) as (client, _):
        with pytest.raises(openai.APITimeoutError) as raised:
            told(client.openai.with_options(timeout=httpx2.Timeout(5, connect=0.2)))
        assert isinstance(raised.value.__cause__, httpx2.ConnectTimeout)


def silent(peer: Peer) -> None:
    peer.request()
    peer.await_gone()


def stalling(peer: Peer) -> None:
    peer.request()
    peer.send(CHUNKED_HEAD, chunk(event()))
    peer.await_gone()


def test_no_answer_in_time() -> None:
    with Scripted(silent) as server, chatting(server.url) as (client, _):
        with pytest.raises(openai.APITimeoutError):
            told(client.openai.with_options(timeout=0.2))
        until(lambda: all(peer.gone.is_set() for peer in server.peers))


def test_stall_in_mid_stream() -> None:
    with Scripted(stalling) as server, chatting(server.url) as (client, _):
        with pytest.raises((openai.APITimeoutError, httpx2.ReadTimeout)):
            told(client.openai.with_options(timeout=0.2))
        until(lambda: all(peer.gone.is_set() for peer in server.peers))


@pytest.mark.parametrize("sent", [b"", CHUNKED_HEAD, CHUNKED_HEAD + chunk(event()), b"no http at all\r\n\r\n"])
def test_connection_that_breaks(sent: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(sent)

    broken = pytest.raises((openai.APIConnectionError, httpx2.RemoteProtocolError))
    with Scripted(script) as server, chatting(server.url) as (client, _), broken:
        told(client.openai)


def test_stream_closed_early_closes_the_connection() -> None:
    with Scripted(stalling) as server, chatting(server.url) as (client, _):
        before = open_files()
        stream = client.openai.chat.completions.create(model="m", messages=MESSAGES, stream=True)
        assert next(iter(stream)).choices[0].delta.content == "Hi"
        stream.close()
        until(lambda: all(peer.gone.is_set() for peer in server.peers))
        assert open_files() <= before


@pytest.mark.parametrize("script", [silent, stalling])
def test_user_stopped_in_mid_call(script: object) -> None:
    with Scripted(script) as server, chatting(server.url) as (client, _):  # type: ignore[arg-type]
        user = gevent.spawn(told, client.openai)
        until(lambda: server.requests)
        gevent.sleep(0.05)
        user.kill()
        until(lambda: all(peer.gone.is_set() for peer in server.peers))
        assert not client.pool.carried


def test_twenty_at_once_and_nothing_left() -> None:
    def script(peer: Peer) -> None:
        while peer.request() is not None:
            peer.send(CHUNKED_HEAD)
            for _ in range(20):
                peer.send(chunk(event("x")))
                gevent.sleep(0.002)
            peer.send(chunk(event("!", "stop") + DONE), LAST_CHUNK)

    with Scripted(script) as server:
        before = open_files()
        with chatting(server.url) as (client, _):
            sdk = client.openai
            for _ in range(2):
                users = [gevent.spawn(told, sdk) for _ in range(20)]
                gevent.joinall(users, raise_error=True)
                assert {user.value for user in users} == {"x" * 20 + "!"}
            assert server.most_open <= 20
        until(lambda: all(peer.gone.is_set() for peer in server.peers))
        assert open_files() <= before


def test_against_the_simulator() -> None:
    with simulator_server() as server, chatting(server.base_url) as (client, _):
        sdk = client.openai
        model = next(iter(sdk.models.list())).id

        def user() -> str:
            stream = sdk.chat.completions.create(model=model, messages=MESSAGES, stream=True, max_tokens=8)
            return "".join(part.choices[0].delta.content or "" for part in stream if part.choices)

        users = [gevent.spawn(user) for _ in range(20)]
        gevent.joinall(users, raise_error=True, timeout=60)
        assert all(one.value for one in users)
        whole = sdk.chat.completions.create(model=model, messages=MESSAGES, max_tokens=8)
        assert whole.usage is not None
        assert whole.usage.completion_tokens == 8
