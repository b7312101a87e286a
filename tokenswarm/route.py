"""How a target is reached: its address, a proxy on the way, TLS. Connecting is done here, before any clock of TTFT runs."""

import base64
import dataclasses
import socket as socket_constants
import ssl
import urllib.parse
import urllib.request

import gevent
from gevent import socket

from tokenswarm.collector import PlainSocket, now_ns, stamp_arrivals
from tokenswarm.target import Target
from tokenswarm.usage_error import UsageError

PROXY_ANSWER_BYTES = 16384


class ConnectError(UsageError):
    """No connection: DNS, refused, time-out, proxy or TLS. The message is for people."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tls:
    """How a server's certificate is judged, and which one is shown to it. `verify=False` is for test rigs."""

    verify: bool = True
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None

    def context(self) -> ssl.SSLContext:
        """Raises ConnectError where a file cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.client_cert:
                context.load_cert_chain(self.client_cert, self.client_key)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(name for name in (self.ca_file, self.client_cert, self.client_key) if name)
            raise ConnectError(f"the TLS files cannot be used ({files}): {error}") from None
        if not self.verify:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])
        return context


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """One way to one server. `proxy` is the address of an HTTP proxy; `tunnel` says that it is asked to CONNECT."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    unix_socket: str | None = None
    proxy: tuple[str, int] | None = None
    proxy_auth: str | None = dataclasses.field(default=None, repr=False)

    @property
    def absolute_form(self) -> bool:
        """Whether requests name the whole URL (plain http through a proxy)."""
        return self.proxy is not None and self.tls is None


def route_to(target: Target, tls: Tls, environment_proxies: bool = True) -> Route:
    """The route to `target`; proxies come from the usual environment variables (HTTP_PROXY, HTTPS_PROXY, NO_PROXY)."""
    parts = urllib.parse.urlsplit(target.base_url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    context = tls.context() if secure else None
    if target.unix_socket or not environment_proxies or urllib.request.proxy_bypass(host):
        return Route(host, port, context, target.unix_socket)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy or host in ("localhost", "::1") or host.startswith("127."):
        return Route(host, port, context)
    address = urllib.parse.urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if address.scheme != "http" or not address.hostname:
        raise ConnectError(f"the proxy for {host} is no http:// proxy; set NO_PROXY={host} or another proxy")
    auth = None
    if address.username is not None:
        pair = f"{urllib.parse.unquote(address.username)}:{urllib.parse.unquote(address.password or '')}"
        auth = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    return Route(host, port, context, None, (address.hostname, address.port or 80), auth)


@dataclasses.dataclass(slots=True)
class Connected:
    """A connected, non-blocking, kernel-stamping socket; under TLS, the object that deciphers its bytes."""

    sock: socket_constants.socket
    connect_us: int
    tls_us: int | None = None
    tls: ssl.SSLObject | None = None
    incoming: ssl.MemoryBIO | None = None
    outgoing: ssl.MemoryBIO | None = None


def _dial(route: Route) -> socket.socket:
    if route.unix_socket:
        family = socket_constants.AF_UNIX
        addresses = [(family, route.unix_socket)]
    else:
        host, port = route.proxy or (route.host, route.port)
        found = socket.getaddrinfo(host, port, type=socket_constants.SOCK_STREAM)
        addresses = [(info[0], info[4]) for info in found]
    problem: OSError | None = None
    for family, address in addresses:
        sock = socket.socket(family, socket_constants.SOCK_STREAM)
        try:
            if family != socket_constants.AF_UNIX:
                sock.setsockopt(socket_constants.IPPROTO_TCP, socket_constants.TCP_NODELAY, 1)
            stamp_arrivals(sock)
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:  # our own limit, or a stop
            sock.close()
            raise
    raise problem or OSError(f"no address for {route.host}")


def _ask_proxy(sock: socket.socket, route: Route) -> None:
    where = f"[{route.host}]:{route.port}" if ":" in route.host else f"{route.host}:{route.port}"
    auth = f"Proxy-Authorization: {route.proxy_auth}\r\n" if route.proxy_auth else ""
    sock.sendall(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{auth}\r\n".encode("latin-1"))
    answer = b""
    while b"\r\n\r\n" not in answer and len(answer) < PROXY_ANSWER_BYTES:
        data = sock.recv(1)  # to the last byte of the head and not beyond: what follows belongs to TLS
        if not data:
            break
        answer += data
    status = answer.split(b"\r\n", 1)[0].decode("latin-1")
    if status.split()[1:2] != ["200"]:
        raise ConnectError(f"the proxy refused a tunnel to {where}: {status or 'it closed the connection'}")


def _shake_hands(sock: socket.socket, route: Route, connected: Connected) -> None:
    assert route.tls is not None
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = route.tls.wrap_bio(incoming, outgoing, server_hostname=route.host)
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            sock.sendall(outgoing.read())
            data = sock.recv(65536)
            if not data:
                raise ConnectError("the server closed the connection during the TLS handshake") from None
            incoming.write(data)
        else:
            break
    if outgoing.pending:
        sock.sendall(outgoing.read())
    connected.tls, connected.incoming, connected.outgoing = tls, incoming, outgoing


def connect(route: Route, limit_s: float | None) -> Connected:
    """A new connection over `route` within `limit_s` seconds. Blocks only this greenlet. Raises ConnectError."""
    where = route.unix_socket or f"{route.host}:{route.port}"
    sock = None
    started = now_ns()
    try:
        with gevent.Timeout(limit_s):
            sock = _dial(route)
            connected = Connected(sock, (now_ns() - started) // 1000)
            if route.tls is not None:
                shaking = now_ns()
                if route.proxy is not None:
                    _ask_proxy(sock, route)
                _shake_hands(sock, route, connected)
                connected.tls_us = (now_ns() - shaking) // 1000
    except BaseException as error:
        if sock is not None:
            sock.close()
        if isinstance(error, gevent.Timeout):
            raise ConnectError(f"no connection to {where} within {limit_s:g} s") from None
        if isinstance(error, ssl.SSLCertVerificationError):
            raise ConnectError(f"the certificate of {where} is not trusted: {error.verify_message}") from None
        if isinstance(error, ssl.SSLError):
            raise ConnectError(f"TLS with {where} failed: {error.reason or error}") from None
        if isinstance(error, OSError):
            raise ConnectError(f"no connection to {where}: {error.strerror or error}") from None
        raise
    plain = PlainSocket(sock.family, sock.type, sock.proto, fileno=sock.detach())
    plain.setblocking(False)
    connected.sock = plain
    return connected
