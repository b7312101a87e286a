"""Servers that do what a test tells them, on the loopback, in this process and its hub: no threads, nothing patched."""

import contextlib
import os
import socket as constants
import ssl
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gevent
from gevent import socket
from gevent.event import Event
from gevent.server import StreamServer

from tokenswarm.client import ChatClient, ChatSettings
from tokenswarm.digest import Reading
from tokenswarm.record import RequestRecord
from tokenswarm.target import parse_target

WAIT_S = 20.0  # for what must happen; generous, the machine may be busy
MESSAGES = [{"role": "user", "content": "Say hello."}]


class Request(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]  # names in small letters
    lines: list[str]  # of the head, as they came
    body: bytes


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock: Any, server: "Scripted") -> None:
        self.sock = sock
        self.server = server
        self.gone = Event()  # the client has closed
        self._read = b""

    def head(self) -> tuple[list[str], dict[str, str]] | None:
        """Reads a request's head; None when the client has closed."""
        while b"\r\n\r\n" not in self._read:
            data = self._receive()
            if not data:
                return None
            self._read += data
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        named = [line.partition(":") for line in lines[1:]]
        return lines, {name.lower(): value.strip() for name, _, value in named}

    def request(self) -> Request | None:
        """Reads a whole request; None when the client has closed."""
        found = self.head()
        if found is None:
            return None
        lines, headers = found
        length = int(headers.get("content-length", 0))
        while len(self._read) < length:
            data = self._receive()
            if not data:
                return None
            self._read += data
        body, self._read = self._read[:length], self._read[length:]
        method, target, _ = lines[0].split(" ")
        request = Request(method, target, headers, lines, body)
        self.server.requests.append(request)
        return request

    def _receive(self) -> bytes:
        try:
            data = self.sock.recv(65536)
        except OSError:
            data = b""
        if not data:
            self.gone.set()
        return data

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.sock.sendall(part)

    def await_gone(self) -> bool:
        """Reads until the client closes; whether it did."""
        with gevent.Timeout(WAIT_S, False):
            while self._receive():
                pass
        return self.gone.is_set()

    def reset(self) -> None:
        """RST instead of an orderly end."""
        self.sock.setsockopt(constants.SOL_SOCKET, constants.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


Script = Callable[[Peer], None]


class Scripted:
    """`script` is run for each connection; the connection is closed when it returns."""

    def __init__(self, script: Script, *, tls: Any = None, address: Any = ("127.0.0.1", 0)) -> None:
        self.requests: list[Request] = []
        self.peers: list[Peer] = []
        self.most_open = 0
        self.open = 0
        self.tls_problems: list[str] = []
        self._script = script
        self._tls = tls
        self.server = StreamServer(address, self._serve)
        self.server.start()

    @property
    def port(self) -> int:
        return int(self.server.server_port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def https(self) -> str:
        return f"https://localhost:{self.port}"

    def _serve(self, sock: Any, _: Any) -> None:
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
            peer = Peer(sock, self)
            self.peers.append(peer)
            self._script(peer)
        except OSError as error:
            self.tls_problems.append(str(error))
        finally:
            self.open -= 1
            with contextlib.suppress(OSError):
                sock.close()

    def __enter__(self) -> "Scripted":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop(timeout=0.1)


# -- answers -----------------------------------------------------------------------------------------------------------


def event(text: str = "Hi", finish: str | None = None) -> bytes:
    reason = f'"{finish}"' if finish else "null"
    return b'data: {"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}\n\n' % (
        text.encode(),
        reason.encode(),
    )


DONE = b"data: [DONE]\n\n"
BODY = event("Hi") + event(" you", "stop") + DONE
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED_HEAD = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM = CHUNKED_HEAD + chunk(event("Hi")) + chunk(event(" you", "stop")) + chunk(DONE) + LAST_CHUNK


def answer(status: int, body: bytes, kind: str = "application/json", more: bytes = b"") -> bytes:
    head = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n".encode()
    return head + more + b"\r\n" + body


def always(data: bytes, pause_s: float = 0.0) -> Script:
    """The same answer to every request, on a connection that is kept."""

    def script(peer: Peer) -> None:
        while peer.request() is not None:
            gevent.sleep(pause_s)
            peer.send(data)

    return script


# -- the client --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def chatting(*urls: str, **settings: Any) -> Iterator[tuple[ChatClient, list[RequestRecord]]]:
    """A client for `urls`, and the records it has made."""
    records: list[RequestRecord] = []

    def keep(reading: Reading) -> None:
        assert reading.record is not None
        records.append(reading.record)

    given = {"targets": tuple(parse_target(url) for url in urls), "model": "m", **settings}
    client = ChatClient(ChatSettings(**given), worker="t", on_record=keep)
    try:
        yield client, records
    finally:
        client.close(WAIT_S)


def ask(client: ChatClient, text: str = "Say hello.", **more: Any) -> RequestRecord:
    reading = client.chat([{"role": "user", "content": text}], user="u", await_record=True, keep_text=True, **more)
    assert reading.record is not None
    return reading.record


def until(look: Callable[[], Any]) -> Any:
    """What `look` returns once it is true."""
    with gevent.Timeout(WAIT_S):
        while not (found := look()):
            gevent.sleep(0.005)
    return found


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextlib.contextmanager
def environment(**variables: str | None) -> Iterator[None]:
    """Environment variables set (or, with None, taken away) for a while; proxy variables of the outside never count."""
    names = [name + kind for name in ("HTTP", "HTTPS", "ALL", "NO") for kind in ("_PROXY",)]
    wanted: dict[str, str | None] = dict.fromkeys([*names, *(name.lower() for name in names)])
    wanted |= variables
    before = {name: os.environ.get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


# -- certificates ------------------------------------------------------------------------------------------------------


class Authority:
    """A CA made for a test, by the openssl command."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.cert = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        self._openssl("req", "-x509", *_new_key(self._key), "-out", self.cert, "-subj", f"/CN={name}", "-days", "2")

    def issue(self, name: str, *alternatives: str, days: int = 2) -> Path:
        """A certificate, valid for `days`, and its key in one file."""
        request, cert, key = (self.folder / f"{name}.{kind}" for kind in ("csr", "crt", "key"))
        self._openssl("req", *_new_key(key), "-out", request, "-subj", f"/CN={name}")
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(
            f"subjectAltName={','.join(alternatives)}\n" if alternatives else "basicConstraints=CA:FALSE\n"
        )
        signed = ("-CA", self.cert, "-CAkey", self._key, "-CAcreateserial", "-days", days, "-extfile", extensions)
        self._openssl("x509", "-req", "-in", request, "-out", cert, *signed)
        both = self.folder / f"{name}.both.pem"
        both.write_bytes(cert.read_bytes() + key.read_bytes())
        return both

    def _openssl(self, *args: object) -> None:
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60)


def _new_key(path: Path) -> Sequence[object]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path)


def server_context(cert: Path, *, version: ssl.TLSVersion | None = None, client_ca: Path | None = None) -> Any:
    from gevent.ssl import SSLContext

    context = SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    return context


def unused_port() -> int:
    """A port at which nothing listens."""
    with contextlib.closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
