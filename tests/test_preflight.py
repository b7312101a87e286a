"""What is found out before the load: each failure one clear sentence, nothing tried again unseen."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.reach.scripted import (
    STREAM,
    Authority,
    Peer,
    Script,
    Scripted,
    answer,
    environment,
    server_context,
    unused_port,
)
from tests.servers import llama_server, simulator_server
from tokenswarm.api_key import KeyCommand
from tokenswarm.client import ChatSettings
from tokenswarm.digest import Reading
from tokenswarm.exchange import Limits
from tokenswarm.preflight import Findings, PreflightError, preflight
from tokenswarm.record import ErrorClass
from tokenswarm.target import parse_target

KEY = "sk-s3cr3t-1"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
WITH_USAGE = STREAM.replace(b"e\r\ndata: [DONE]", b"%x\r\n%s\r\ne\r\ndata: [DONE]" % (len(USAGE), USAGE))
HTML = b"<html><title>Welcome</title><body>It works</body></html>"


@pytest.fixture(autouse=True)
def no_proxies() -> Iterator[None]:
    with environment(OPENAI_API_KEY=None):
        yield


def models(*names: str) -> bytes:
    return answer(
        200, json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in names]}).encode()
    )


def refusal(status: int, **error: Any) -> bytes:
    return answer(status, json.dumps({"error": error}).encode())


def serving(listed: bytes, chat: Any) -> Script:
    """Answers the list with `listed`, and chats with bytes or with what `chat` makes of the request's fields."""

    def script(peer: Peer) -> None:
        while (request := peer.request()) is not None:
            if request.method == "GET":
                peer.send(listed)
            else:
                peer.send(chat if isinstance(chat, bytes) else chat(json.loads(request.body)))

    return script


def look(url: str, *, model: str = "", readings: list[Reading] | None = None, **settings: Any) -> Findings:
    targets = tuple(parse_target(part) for part in url.split(","))
    on_record = (readings if readings is not None else []).append
    return preflight(ChatSettings(targets=targets, model=model, **settings), on_record=on_record)


def told(url: str, **settings: Any) -> str:
    with pytest.raises(PreflightError) as raised:
        look(url, **settings)
    text = str(raised.value)
    assert KEY not in text
    assert "Traceback" not in text
    return text


def test_a_good_server() -> None:
    readings: list[Reading] = []
    with Scripted(serving(models("one"), WITH_USAGE)) as server:
        found = look(server.url, readings=readings)
        assert [request.target for request in server.requests] == ["/v1/models", "/v1/chat/completions"]
    assert found.settings.model == "one"
    assert found.models == ("one",)
    assert found.reports_usage
    assert found.notes == ()
    assert len(readings) == 1


def test_refused_connection() -> None:
    port = unused_port()
    said = told(f"http://127.0.0.1:{port}")
    assert f"no connection to 127.0.0.1:{port}: Connection refused" in said
    assert f"TARGET=http://127.0.0.1:{port}/v1" in said


def test_unknown_name() -> None:
    assert "the name 'no-such-host.invalid' cannot be resolved" in told("http://no-such-host.invalid")


def test_no_connection_in_time() -> None:
    def script(peer: Peer) -> None:
        peer.await_gone()

    with Scripted(script) as server:
        said = told(server.https, limits=Limits(connect_s=0.2))
    assert f"no connection to localhost:{server.port} within 0.2 s" in said


def test_no_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenswarm.listing.MODELS_LIMIT_S", 0.2)

    def script(peer: Peer) -> None:
        peer.await_gone()

    with Scripted(script) as server:
        assert "/v1/models did not answer within 0.2 s" in told(server.url)


def test_no_token_in_time() -> None:
    def script(peer: Peer) -> None:
        while (request := peer.request()) is not None:
            if request.method == "GET":
                peer.send(models("one"))

    with Scripted(script) as server:
        said = told(server.url, limits=Limits(first_token_s=0.2))
    assert "no token within 0.2 s" in said
    assert "--first-token-timeout" in said


def test_html_page() -> None:
    with Scripted(serving(answer(200, HTML, "text/html"), answer(200, HTML, "text/html"))) as server:
        said = told(server.url)
        assert f"{server.url}/v1/models is no OpenAI-compatible server" in said


def test_html_page_where_chat_should_be() -> None:
    with Scripted(serving(models("one"), answer(200, HTML, "text/html"))) as server:
        said = told(server.url)
        assert f"{server.url}/v1/chat/completions is no OpenAI-compatible server" in said
        assert "Welcome" in said


@pytest.mark.parametrize("at", ["list", "chat"])
@pytest.mark.parametrize("status", [401, 403])
def test_key_refused(at: str, status: int) -> None:
    def script(peer: Peer) -> None:
        while (request := peer.request()) is not None:
            given = request.headers.get("authorization", "Bearer (none)").removeprefix("Bearer ")
            said = f"Incorrect API key provided: {given}"
            peer.send(models("one") if at == "chat" and request.method == "GET" else refusal(status, message=said))

    with Scripted(script) as server:
        said = told(server.url)
        assert f"The server at {server.url}/v1 wants an API key (HTTP {status}). Set OPENAI_API_KEY" in said
        said = told(server.url, api_key=KEY)
        assert f"The API key in OPENAI_API_KEY was refused by {server.url}/v1 (HTTP {status})" in said
        assert "Incorrect API key provided: ***" in said
        said = told(server.url, api_key=KEY, key_command=KeyCommand("true"))
        assert "--api-key-command" in said


def test_model_not_found() -> None:
    refused = refusal(404, message="The model `x` does not exist.", type="NotFoundError")
    with Scripted(serving(models("one", "two"), refused)) as server:
        said = told(server.url, model="x")
    assert "does not serve the model 'x' (HTTP 404)" in said
    assert "  one\n  two" in said


def test_wrong_path_shows_the_url_without_credentials() -> None:
    missing = answer(404, b'{"detail":"Not Found"}')
    with Scripted(serving(missing, missing)) as server:
        url = f"http://me:pw5@127.0.0.1:{server.port}/api/v3?key=s3cr3t&v=1"
        said = told(url, model="x")
        assert f"http://127.0.0.1:{server.port}/api/v3/chat/completions?key=***&v=1 (HTTP 404)" in said
        without = told(url)
        assert f"http://127.0.0.1:{server.port}/api/v3/models?key=***&v=1 answered HTTP 404" in without
        assert "MODEL=" in without
        for secret in ("pw5", "s3cr3t"):
            assert secret not in said + without


def test_several_models() -> None:
    with Scripted(serving(models(*(f"m{number}" for number in range(30)), "\x1b[31mred"), STREAM)) as server:
        said = told(server.url)
        assert "serves 31 models; name the one to measure with MODEL=" in said
        assert "  m0\n  m1\n" in said
        assert "and 11 more" in said
        assert look(server.url, model="m7").settings.model == "m7"


def test_no_models() -> None:
    with Scripted(serving(models(), STREAM)) as server:
        assert "/v1/models lists no models. Name it with MODEL=" in told(server.url)


def test_not_streaming() -> None:
    whole = b'{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Hi"}}]}'
    with Scripted(serving(models("one"), answer(200, whole))) as server:
        assert "answers without streaming although stream=true was asked" in told(server.url)


@pytest.mark.parametrize(
    "refused",
    [
        answer(
            422,
            b'{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs"}]}',
        ),
        refusal(400, message="Unrecognized request argument supplied: stream_options", type="invalid_request_error"),
        answer(422, b'{"detail":"Unexpected fields in the request: {\'stream_options\'}"}'),
    ],
)
def test_stream_options_refused(refused: bytes) -> None:
    with Scripted(serving(models("one"), lambda fields: refused if "stream_options" in fields else STREAM)) as server:
        found = look(server.url)
        bodies = [json.loads(request.body) for request in server.requests if request.body]
    assert ["stream_options" in body for body in bodies] == [True, False]
    assert not found.settings.include_usage
    assert found.notes[0] == "the server refuses stream_options: usage is not asked for"
    assert "reports no usage" in found.notes[1]


def test_max_tokens_refused() -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    refused = refusal(
        400, message=words, type="invalid_request_error", param="max_tokens", code="unsupported_parameter"
    )
    with Scripted(serving(models("one"), lambda fields: refused if "max_tokens" in fields else WITH_USAGE)) as server:
        found = look(server.url)
    assert found.settings.max_tokens_field == "max_completion_tokens"
    assert found.notes == ("the server refuses max_tokens: the limit is sent as max_completion_tokens",)


def test_every_field_refused_ends() -> None:
    def chat(fields: dict[str, Any]) -> bytes:
        name = "max_tokens" if "max_tokens" in fields else "max_completion_tokens"
        return refusal(400, message=f"Unsupported parameter: '{name}'", param=name, code="unsupported_parameter")

    with Scripted(serving(models("one"), chat)) as server:
        assert "refuses a field of the request (HTTP 400)" in told(server.url)
        assert 2 <= len(server.requests) <= 6


def test_users_own_field_refused() -> None:
    refused = answer(422, b'{"detail":"Unexpected fields in the request: {\'ignore_eos\'}"}')
    with Scripted(serving(models("one"), refused)) as server:
        said = told(server.url, extra_body={"ignore_eos": True})
        assert "--extra-body" in said
        assert len(server.requests) == 2


@pytest.mark.parametrize("status", [429, 503])
def test_too_much_at_once(status: int) -> None:
    refused = refusal(status, message="please wait")
    with Scripted(serving(models("one"), refused)) as server:
        said = told(server.url)
        assert f"refuses the very first request (HTTP {status})" in said
        assert "please wait" in said
        assert len(server.requests) == 2  # nothing was tried again
    with Scripted(serving(refused, refused)) as server:
        said = told(server.url)
        assert f'/v1/models answered HTTP {status} and said "please wait". Name it' in said
        assert len(server.requests) == 1


def test_broken_at_once() -> None:
    with Scripted(serving(models("one"), refusal(500, message="the engine is dead"))) as server:
        said = told(server.url)
        assert "(HTTP 500)" in said
        assert "the engine is dead" in said
        assert "python -m tokenswarm.probe" in said


def test_every_target_is_looked_at() -> None:
    with Scripted(serving(models("one"), WITH_USAGE)) as good, Scripted(serving(models("one"), WITH_USAGE)) as too:
        found = look(f"{good.url},{too.url}")
        assert len(found.settings.targets) == 2
        assert len(too.requests) == 1
        dead = f"http://127.0.0.1:{unused_port()}"
        assert f"TARGET={dead}/v1" in told(f"{good.url},{dead}")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_proxy_wants_credentials(scheme: str) -> None:
    def script(peer: Peer) -> None:
        peer.head()
        peer.send(answer(407, b"", more=b"Proxy-Authenticate: Basic\r\n"))

    with Scripted(script) as proxy, environment(HTTP_PROXY=proxy.url, HTTPS_PROXY=proxy.url):
        said = told(f"{scheme}://llm.example")
        assert f"proxy 127.0.0.1:{proxy.port} wants a user and password" in said


def test_untrusted_certificate(tmp_path: Any) -> None:
    cert = Authority(tmp_path, "ca").issue("server", "DNS:localhost")
    with Scripted(serving(models("one"), STREAM), tls=server_context(cert)) as server:
        said = told(server.https)
    assert f"the certificate of localhost:{server.port} is not trusted" in said
    assert "--ca-file" in said


def test_the_simulator_and_llama_cpp() -> None:
    with simulator_server() as server:
        found = look(server.base_url)
        assert found.reports_usage
        assert found.settings.include_usage
    with llama_server() as server:
        found = look(server.base_url.removesuffix("/v1"))
        assert found.settings.model == "tiny"
        assert found.reports_usage
        assert found.probe.error_class in (None, ErrorClass.EMPTY_RESPONSE)
