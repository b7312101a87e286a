"""The way to a server: TLS, proxies, IPv6, unix sockets, several targets."""

import base64
import contextlib
import socket as constants
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest
from gevent import socket

from tests.reach.scripted import (
    DONE,
    STREAM,
    Authority,
    Peer,
    Scripted,
    always,
    answer,
    ask,
    chatting,
    environment,
    event,
    server_context,
    until,
    unused_port,
)
from tokenswarm.exchange import Limits
from tokenswarm.proxy import ConnectError, proxy_for
from tokenswarm.record import ErrorClass, Outcome, RequestRecord, Stamp
from tokenswarm.route import Tls, connect, route_to
from tokenswarm.target import parse_target

SAN = ("DNS:localhost", "IP:127.0.0.1", "IP:::1")
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(autouse=True)
def no_proxies() -> Iterator[None]:
    with environment():
        yield


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"), "ca")


@pytest.fixture(scope="module")
def cert(ca: Authority) -> Path:
    return ca.issue("server", *SAN)


def is_ok(record: RequestRecord) -> bool:
    assert record.outcome is Outcome.OK, record
    return True


# -- TLS -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_tls_with_kernel_stamps_and_a_reused_connection(ca: Authority, cert: Path, version: ssl.TLSVersion) -> None:
    seen: list[str | None] = []
    context = server_context(cert, version=version)
    context.sni_callback = lambda sock, name, context: seen.append(name)
    with (
        Scripted(always(STREAM), tls=context) as server,
        chatting(server.https, tls=Tls(ca_file=str(ca.cert))) as (client, _),
    ):
        first, second = ask(client), ask(client)
        assert is_ok(first)
        assert is_ok(second)
        assert first.stamp is second.stamp is Stamp.KERNEL
        assert first.tls_us is not None
        assert first.tls_us > 0
        assert (second.connect_us, second.tls_us) == (
            None,
            None,
        )  # session tickets came after the handshake: unharmed
        assert len(server.peers) == 1
        assert server.peers[0].sock.version() == {VERSIONS[0]: "TLSv1.2", VERSIONS[1]: "TLSv1.3"}[version]
        assert seen == ["localhost"]


@pytest.mark.parametrize("version", VERSIONS)
def test_big_request_and_slow_reader_under_tls(ca: Authority, cert: Path, version: ssl.TLSVersion) -> None:
    text = "word " * 400_000  # 2 MB: more than any socket buffer takes at once

    def script(peer: Peer) -> None:
        gevent.sleep(0.2)
        assert peer.request() is not None
        peer.send(STREAM)

    with (
        Scripted(script, tls=server_context(cert, version=version)) as server,
        chatting(server.https, tls=Tls(ca_file=str(ca.cert))) as (client, _),
    ):
        assert is_ok(ask(client, text))
        assert text.encode() in server.requests[0].body


@pytest.mark.parametrize("orderly", [True, False], ids=["close_notify", "bare end"])
@pytest.mark.parametrize("version", VERSIONS)
def test_answer_that_ends_with_the_tls_connection(
    ca: Authority, cert: Path, version: ssl.TLSVersion, orderly: bool
) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", event("Hi", "stop"), DONE)
        if orderly:
            peer.sock.unwrap()

    with (
        Scripted(script, tls=server_context(cert, version=version)) as server,
        chatting(server.https, tls=Tls(ca_file=str(ca.cert))) as (client, _),
    ):
        record = ask(client)
        assert is_ok(record)
        assert len(record.chunk_us) == 1


def test_tls_connection_closed_while_idle_costs_nothing(ca: Authority, cert: Path) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(STREAM)
        peer.sock.unwrap()

    with (
        Scripted(script, tls=server_context(cert)) as server,
        chatting(server.https, tls=Tls(ca_file=str(ca.cert))) as (client, records),
    ):
        for _ in range(5):
            ask(client)
        assert [record.outcome for record in records] == [Outcome.OK] * 5
        assert len(server.peers) == 5


def test_certificate_of_another_ca(tmp_path: Path, cert: Path) -> None:
    other = Authority(tmp_path, "other")
    with (
        Scripted(always(STREAM), tls=server_context(cert)) as server,
        chatting(server.https, tls=Tls(ca_file=str(other.cert))) as (client, _),
    ):
        record = ask(client)
    assert record.error_class is ErrorClass.CONNECT_FAILED
    assert record.detail is not None
    assert f"the certificate of localhost:{server.port} is not trusted" in record.detail
    assert "--ca-file" in record.detail
    assert not server.requests


def test_certificate_of_another_name(ca: Authority) -> None:
    with (
        Scripted(always(STREAM), tls=server_context(ca.issue("elsewhere", "DNS:elsewhere.example"))) as server,
        chatting(server.https, tls=Tls(ca_file=str(ca.cert))) as (client, _),
    ):
        record = ask(client)
    said = record.detail or ""
    assert "Hostname mismatch" in said
    assert "Use a name that it is made out to" in said
    assert "--ca-file" not in said  # its CA is known already
    assert ".." not in said


def test_expired_certificate(ca: Authority) -> None:
    with (
        Scripted(always(STREAM), tls=server_context(ca.issue("old", "DNS:localhost", days=-1))) as server,
        chatting(server.https, tls=Tls(ca_file=str(ca.cert))) as (client, _),
    ):
        record = ask(client)
    assert "certificate has expired. It has to be renewed" in (record.detail or "")


def test_insecure_takes_any_certificate(cert: Path) -> None:
    with (
        Scripted(always(STREAM), tls=server_context(cert)) as server,
        chatting(server.https, tls=Tls(verify=False)) as (client, _),
    ):
        assert is_ok(ask(client))


@pytest.mark.parametrize("version", VERSIONS)
def test_client_certificate(ca: Authority, cert: Path, version: ssl.TLSVersion) -> None:
    own = ca.issue("tester")
    with (
        Scripted(always(STREAM), tls=server_context(cert, version=version, client_ca=ca.cert)) as server,
        chatting(server.https, tls=Tls(ca_file=str(ca.cert), client_cert=str(own))) as (client, _),
    ):
        assert is_ok(ask(client))
        names = dict(pair for entry in server.peers[0].sock.getpeercert()["subject"] for pair in entry)
        assert names["commonName"] == "tester"
        with chatting(server.https, tls=Tls(ca_file=str(ca.cert))) as (client, _):
            record = ask(client)
        assert record.error_class is ErrorClass.CONNECT_FAILED, record
        assert "certificate required" in (record.detail or "") or "handshake failure" in (record.detail or "")


def test_plain_http_where_tls_was_expected() -> None:
    def script(peer: Peer) -> None:
        peer.sock.recv(1)
        peer.send(answer(400, b"this is plain http"))

    with Scripted(script) as server, chatting(server.https) as (client, _):
        record = ask(client)
    assert record.error_class is ErrorClass.CONNECT_FAILED
    assert "the server may speak plain http there" in (record.detail or "")


def test_client_certificate_without_its_key(ca: Authority) -> None:
    ca.issue("alone")
    with pytest.raises(ConnectError, match="name the file with its key, --client-key"):
        Tls(client_cert=str(ca.folder / "alone.crt")).context()


@pytest.mark.parametrize("option", ["ca_file", "client_cert"])
def test_tls_files_that_cannot_be_used(tmp_path: Path, option: str) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    for path in (nonsense, tmp_path / "missing.pem"):
        with pytest.raises(ConnectError, match=rf"--{option.replace('_', '-')} .*{path.name} cannot be used: .*PEM"):
            Tls(**{option: str(path)}).context()


def test_tls_through_the_probe(ca: Authority, cert: Path) -> None:
    """The same in a process that gevent has patched, as load processes are."""
    with Scripted(always(STREAM), tls=server_context(cert)) as server:
        command = [sys.executable, "-m", "tokenswarm.probe", server.https, "--no-preflight", "--model", "m", "--json"]
        done = gevent.get_hub().threadpool.apply(
            subprocess.run,
            ([*command, "--ca-file", str(ca.cert)],),
            {"capture_output": True, "text": True, "timeout": 60},
        )
    assert done.returncode == 0, done.stderr
    assert '"stamp":"kernel"' in done.stdout
    assert '"tls_us":null' not in done.stdout


# -- addresses -------------------------------------------------------------------------------------------------------


def test_ipv6_literal() -> None:
    try:
        server = Scripted(always(STREAM), address=_listener_v6())
    except OSError:
        pytest.skip("no IPv6 on the loopback of this machine")
    with server, chatting(f"http://[::1]:{server.port}") as (client, _):
        assert is_ok(ask(client))
        assert server.requests[0].headers["host"] == f"[::1]:{server.port}"


def _listener_v6() -> socket.socket:
    sock = socket.socket(constants.AF_INET6)
    sock.bind(("::1", 0))
    sock.listen()
    return sock


@contextlib.contextmanager
def two_addresses(monkeypatch: pytest.MonkeyPatch, port: int) -> Iterator[None]:
    """two.example has two addresses; the first never answers (a full backlog, here)."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            clog = stack.enter_context(socket.socket())
            clog.setblocking(False)
            clog.connect_ex(full.getsockname())
        found = [(constants.AF_INET, 1, 6, "", address) for address in (full.getsockname(), ("127.0.0.1", port))]
        monkeypatch.setattr("tokenswarm.route._getaddrinfo", lambda *_, **__: found)
        yield


def test_name_with_a_dead_first_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead address has its share of the time only, and only once."""
    with Scripted(always(STREAM)) as server, two_addresses(monkeypatch, server.port):
        route = route_to(parse_target("http://two.example"), Tls())
        took_us = []
        for _ in range(2):
            connected = connect(route, 2.0)
            connected.sock.close()
            took_us.append(connected.connect_us)
    assert 900_000 < took_us[0] < 1_900_000
    assert took_us[1] < 900_000


def test_dead_first_address_where_connecting_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenswarm.route.NEXT_ADDRESS_S", 0.5)
    with Scripted(always(STREAM)) as server, two_addresses(monkeypatch, server.port):
        connected = connect(route_to(parse_target("http://two.example"), Tls()), None)
        connected.sock.close()
    assert 400_000 < connected.connect_us < 10_000_000


def test_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "llm.sock")
    listener = socket.socket(constants.AF_UNIX)
    listener.bind(path)
    listener.listen()
    with Scripted(always(STREAM), address=listener) as server, chatting(f"unix:{path}:/api") as (client, _):
        first, second = ask(client), ask(client)
        assert is_ok(first)
        assert is_ok(second)
        assert [request.target for request in server.requests] == ["/api/chat/completions"] * 2
        assert first.stamp is Stamp.USER  # unix sockets have no stamps: it says so
    with chatting(f"unix:{path}.gone") as (client, _):
        assert f"no connection to {path}.gone: No such file" in (ask(client).detail or "")


def test_targets_take_turns() -> None:
    with Scripted(always(STREAM)) as one, Scripted(always(STREAM)) as two, Scripted(always(STREAM)) as three:
        with chatting(one.url, two.url, three.url) as (client, records):
            gevent.joinall([gevent.spawn(ask, client) for _ in range(30)], raise_error=True)
        assert [len(server.requests) for server in (one, two, three)] == [10, 10, 10]
        assert [record.outcome for record in records] == [Outcome.OK] * 30


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:{port}", "no connection to 127.0.0.1:{port}: Connection refused"),
        ("http://no-such-host.invalid", "the name 'no-such-host.invalid' cannot be resolved"),
    ],
)
def test_nobody_there(url: str, said: str) -> None:
    port = unused_port()
    with chatting(url.format(port=port)) as (client, _):
        record = ask(client)
    assert (record.outcome, record.error_class) == (Outcome.FAILED, ErrorClass.CONNECT_FAILED)
    assert said.format(port=port) in (record.detail or "")


# -- proxies ---------------------------------------------------------------------------------------------------------


def forwarding(peer: Peer) -> None:
    """A proxy for both kinds, to whatever the request names; every name leads to the loopback."""
    found = peer.head()
    if found is None:
        return
    lines, _ = found
    method, target, _ = lines[0].split(" ")
    if method == "CONNECT":
        peer.server.requests.append(("CONNECT", target, lines))  # type: ignore[arg-type]
        with socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2]))) as onward:
            peer.send(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
            gevent.joinall([gevent.spawn(_pump, peer.sock, onward), gevent.spawn(_pump, onward, peer.sock)])


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(constants.SHUT_WR)
    except OSError:
        pass


def test_http_proxy_is_handed_whole_urls_and_its_credentials() -> None:
    with Scripted(always(STREAM)) as proxy:
        address = f"http://joe:p%40ss@127.0.0.1:{proxy.port}"
        with environment(HTTP_PROXY=address), chatting("http://llm.example:8000/v1?x=1") as (client, records):
            ask(client)
            ask(client)
            list(
                client.openai.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "x"}], stream=True
                )
            )
        assert [record.outcome for record in records] == [Outcome.OK] * 2
        assert {request.target for request in proxy.requests} == {"http://llm.example:8000/v1/chat/completions?x=1"}
        credentials = "Basic " + base64.b64encode(b"joe:p@ss").decode()
        assert [request.headers["proxy-authorization"] for request in proxy.requests] == [credentials] * 3
        assert {request.headers["host"] for request in proxy.requests} == {"llm.example:8000"}
        assert len(proxy.peers) == 1  # kept alive


def test_https_through_a_tunnel(ca: Authority, cert: Path) -> None:
    with Scripted(always(STREAM), tls=server_context(cert)) as server, Scripted(forwarding) as proxy:
        with (
            environment(HTTPS_PROXY=f"http://joe:pw@127.0.0.1:{proxy.port}"),
            chatting(server.https, tls=Tls(ca_file=str(ca.cert))) as (client, records),
        ):
            ask(client)
            ask(client)
        assert [record.outcome for record in records] == [Outcome.OK] * 2
        assert records[0].stamp is Stamp.KERNEL
        assert [request[:2] for request in proxy.requests] == [("CONNECT", f"localhost:{server.port}")]
        assert "Proxy-Authorization: Basic am9lOnB3" in proxy.requests[0][2]
        assert "proxy-authorization" not in server.requests[0].headers  # not for the server's eyes
        assert server.requests[0].target == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "wants a user and password (407)"),
        (
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno",
            "refused a tunnel to localhost:443; it said: 'HTTP/1.1 403",
        ),
        (b"", "refused a tunnel to localhost:443; it closed the connection"),
        (b"SSH-2.0-x\r\n", "refused a tunnel to localhost:443; it said: 'SSH-2.0-x'"),
    ],
)
def test_proxy_that_refuses_a_tunnel(said: bytes, words: str) -> None:
    def script(peer: Peer) -> None:
        peer.head()
        peer.send(said)

    with (
        Scripted(script) as proxy,
        environment(HTTPS_PROXY=f"127.0.0.1:{proxy.port}"),
        chatting("https://localhost") as (client, _),
    ):
        record = ask(client)
    assert record.error_class is ErrorClass.CONNECT_FAILED
    assert f"the proxy 127.0.0.1:{proxy.port} " in (record.detail or "")
    assert words in (record.detail or "")


def test_proxy_that_is_not_there() -> None:
    port = unused_port()
    with environment(HTTP_PROXY=f"http://joe:pw@127.0.0.1:{port}"), chatting("http://llm.example") as (client, _):
        record = ask(client)
    assert record.error_class is ErrorClass.CONNECT_FAILED
    assert f"no connection to llm.example:80 through the proxy 127.0.0.1:{port}: Connection refused" in (
        record.detail or ""
    )
    assert "pw" not in (record.detail or "")


@pytest.mark.parametrize(
    ("no_proxy", "host", "direct"),
    [
        ("", "llm.example", False),
        ("llm.example", "llm.example", True),
        ("LLM.example", "llm.Example", True),
        ("example", "llm.example", True),
        (".example", "llm.example", True),
        ("*.example", "llm.example", True),
        ("ample", "llm.example", False),
        ("llm.example:80", "llm.example", True),
        ("llm.example:81", "llm.example", False),
        ("other, llm.example", "llm.example", True),
        ("other llm.example", "llm.example", True),  # as curl has it
        ("*", "llm.example", True),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "llm.example", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("::1", "::2", False),
        ("fd00::/8", "fd12::1", True),
        ("[fd12::1]:80", "fd12::1", True),
        ("", "127.0.0.1", True),  # a proxy elsewhere cannot reach this machine's loopback
        ("", "localhost", True),
        ("", "::1", True),
    ],
)
def test_no_proxy(no_proxy: str, host: str, direct: bool) -> None:
    with environment(http_proxy="http://proxy.example:3128", no_proxy=no_proxy):
        assert (proxy_for("http", host, 80) is None) == direct


def test_proxy_variables() -> None:
    with environment(ALL_PROXY="proxy.example"):
        found = proxy_for("https", "llm.example", 443)
        assert found is not None
        assert (found.host, found.port, found.auth) == ("proxy.example", 80, None)
    with environment(HTTPS_PROXY="http://p:1", HTTP_PROXY="http://q:2"):
        assert [proxy_for(scheme, "h", 1).port for scheme in ("https", "http")] == [1, 2]  # type: ignore[union-attr]
    for unusable in ("socks5://u:pw5@p:1080", "https://u:pw5@p", "http://u:pw5@p:x"):
        with environment(HTTP_PROXY=unusable), pytest.raises(ConnectError, match="NO_PROXY=h") as raised:
            proxy_for("http", "h", 80)
        assert "pw5" not in str(raised.value)
        assert "HTTP_PROXY" in str(raised.value)
    with environment(ALL_PROXY="socks5://p:1080"), pytest.raises(ConnectError, match="socks5:// proxy in ALL_PROXY"):
        proxy_for("https", "h", 443)


def test_loopback_target_goes_through_a_loopback_proxy() -> None:
    with environment(HTTP_PROXY="http://127.0.0.1:3128"):
        assert proxy_for("http", "127.0.0.1", 8000) is not None
    with environment(HTTP_PROXY="http://127.0.0.1:3128", NO_PROXY="127.0.0.1"):
        assert proxy_for("http", "127.0.0.1", 8000) is None


def test_connect_limit_covers_tunnel_and_handshake() -> None:
    silent: list[Peer] = []

    def script(peer: Peer) -> None:
        silent.append(peer)
        peer.await_gone()

    with Scripted(script) as server, chatting(server.https, limits=Limits(connect_s=0.2)) as (client, _):
        record = ask(client)
        assert "within 0.2 s" in (record.detail or "")
        assert record.error_class is ErrorClass.CONNECT_FAILED
        assert until(lambda: silent[0].gone.is_set())  # and the socket is closed


def test_somebody_elses_time_limit_is_not_taken_for_ours() -> None:
    """A user's own gevent.Timeout around a request stops it: cancelled, not a failure of the server."""

    def script(peer: Peer) -> None:
        peer.await_gone()

    with Scripted(script) as server, chatting(server.https) as (client, records):
        with pytest.raises(gevent.Timeout), gevent.Timeout(0.2):
            ask(client)
        client.digest.drain(5)
        assert [record.outcome for record in records] == [Outcome.CANCELLED]
