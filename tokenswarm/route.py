"""How a target is reached: its address, a proxy on the way, TLS. Connecting is done here, before any clock of TTFT runs."""

import dataclasses
import socket as socket_constants
import ssl
import urllib.parse

import gevent
from gevent import monkey, socket

from tokenswarm.collector import PlainSocket, now_ns, stamp_arrivals
from tokenswarm.proxy import ConnectError, Proxy, join, open_tunnel, proxy_for
from tokenswarm.target import Target

__all__ = ["ConnectError", "Connected", "Route", "Tls", "connect", "route_to"]

NEXT_ADDRESS_S = 3.0  # for an address, where there is another to be tried; a SYN lost once or twice is within it
_answered: dict[tuple[str, int], tuple[int, tuple[str, int]]] = {}  # the address at which a name answered last

_getaddrinfo = monkey.get_original("socket", "getaddrinfo")


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
        except (OSError, ssl.SSLError) as error:
            raise ConnectError(
                f"--ca-file {self.ca_file} cannot be used: {_words(error)}. Give certificates in PEM."
            ) from None
        if self.client_cert:
            try:
                context.load_cert_chain(
                    self.client_cert, self.client_key, password=lambda: b""
                )  # never ask at the terminal
            except (OSError, ssl.SSLError, ValueError) as error:
                files = f"--client-cert {self.client_cert}" + (
                    f" --client-key {self.client_key}" if self.client_key else ""
                )
                alone = not self.client_key and _holds_certificate(self.client_cert)
                hint = "or name the file with its key, --client-key" if alone else "not encrypted"
                raise ConnectError(
                    f"{files} cannot be used: {_words(error)}. Give a certificate and its key in PEM, {hint}."
                ) from None
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])
        return context


def _holds_certificate(file: str) -> bool:
    try:
        return bool(ssl.create_default_context(cafile=file).cert_store_stats()["x509"])
    except (OSError, ssl.SSLError):
        return False


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason.replace("_", " ").lower() if error.reason else "what is needed is not in it as PEM"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """One way to one server. With TLS `proxy` is asked for a tunnel, without it is handed the requests."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    unix_socket: str | None = None
    proxy: Proxy | None = None

    @property
    def absolute_form(self) -> bool:
        """Whether requests name the whole URL (plain http through a proxy)."""
        return self.proxy is not None and self.tls is None

    @property
    def shown(self) -> str:
        """Where it leads, for people."""
        return self.unix_socket or join(self.host, self.port)


def route_to(target: Target, tls: Tls, environment_proxies: bool = True) -> Route:
    """The route to `target`; proxies come from the usual environment variables. Raises ConnectError."""
    parts = urllib.parse.urlsplit(target.base_url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    through = environment_proxies and target.unix_socket is None
    proxy = proxy_for(parts.scheme, host, port) if through else None
    return Route(host, port, tls.context() if secure else None, target.unix_socket, proxy)


@dataclasses.dataclass(slots=True)
class Connected:
    """A connected, non-blocking, kernel-stamping socket; under TLS, the object that deciphers its bytes."""

    sock: socket_constants.socket
    connect_us: int
    tls_us: int | None = None
    tls: ssl.SSLObject | None = None
    incoming: ssl.MemoryBIO | None = None
    outgoing: ssl.MemoryBIO | None = None


def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    """(family, address) of `host`. A number needs no resolver, and so no thread of its pool."""
    kind = socket_constants.SOCK_STREAM
    try:
        found = _getaddrinfo(host, port, type=kind, flags=socket_constants.AI_NUMERICHOST)
    except socket_constants.gaierror:
        found = socket.getaddrinfo(host, port, type=kind)
    return [(info[0], info[4]) for info in found]


def _dial(route: Route, limit_s: float | None) -> socket.socket:
    """A socket connected to the first address that answers; the one that did last time is the first that is tried.

    Each but the last has its share of the time only.
    """
    if route.unix_socket:
        return _dial_one(socket_constants.AF_UNIX, route.unix_socket, None)
    host, port = (route.proxy.host, route.proxy.port) if route.proxy else (route.host, route.port)
    addresses = _addresses(host, port)
    good = _answered.get((host, port))
    addresses.sort(key=lambda found: found != good)
    share_s = NEXT_ADDRESS_S if limit_s is None else min(NEXT_ADDRESS_S, limit_s / len(addresses))
    for left in range(len(addresses) - 1, -1, -1):
        found = addresses[-1 - left]
        try:
            sock = _dial_one(*found, share_s if left else None)
        except OSError:
            if not left:
                raise
        else:
            _answered[host, port] = found
            return sock
    raise ConnectError(f"the name '{host}' has no address")


def _dial_one(family: int, address: str | tuple[str, int], limit_s: float | None) -> socket.socket:
    sock = socket.socket(family, socket_constants.SOCK_STREAM)
    try:
        if family != socket_constants.AF_UNIX:
            sock.setsockopt(socket_constants.IPPROTO_TCP, socket_constants.TCP_NODELAY, 1)
        stamp_arrivals(sock)
        sock.settimeout(limit_s)
        sock.connect(address)
        sock.settimeout(None)
        return sock
    except BaseException:  # a failure, our own limit, or a stop
        sock.close()
        raise


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
                raise ConnectError(f"{route.shown} closed the connection during the TLS handshake") from None
            incoming.write(data)
        except ssl.SSLError:
            if outgoing.pending:
                sock.sendall(outgoing.read())  # the alert: the server may say why in its log
            raise
        else:
            break
    if outgoing.pending:
        sock.sendall(outgoing.read())
    connected.tls, connected.incoming, connected.outgoing = tls, incoming, outgoing


def connect(route: Route, limit_s: float | None) -> Connected:
    """A new connection over `route` within `limit_s` seconds. Blocks only this greenlet. Raises ConnectError."""
    sock = None
    started = now_ns()
    limit = gevent.Timeout(limit_s)
    try:
        with limit:
            sock = _dial(route, limit_s)
            connected = Connected(sock, (now_ns() - started) // 1000)
            if route.tls is not None:
                shaking = now_ns()
                if route.proxy is not None:
                    open_tunnel(sock, route.proxy, route.host, route.port)
                _shake_hands(sock, route, connected)
                connected.tls_us = (now_ns() - shaking) // 1000
    except BaseException as error:
        if sock is not None:
            sock.close()
        if error is limit:
            raise ConnectError(f"no connection to {_way(route)} within {limit_s:g} s") from None
        told = _told(route, error)
        if told is None:
            raise
        raise ConnectError(told) from None
    plain = PlainSocket(sock.family, sock.type, sock.proto, fileno=sock.detach())
    plain.setblocking(False)
    connected.sock = plain
    return connected


def _way(route: Route) -> str:
    return route.shown + (f" through the proxy {route.proxy.shown}" if route.proxy is not None else "")


def _told(route: Route, error: BaseException) -> str | None:
    """What went wrong, in words; None where it was no failure of the connection (or is one in words already)."""
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = _CERTIFICATE_HINTS.get(error.verify_code, "Name its CA with --ca-file")
        why = error.verify_message.rstrip(".")
        return f"the certificate of {route.shown} is not trusted: {why}. {hint}, or use --insecure on a test rig"
    if isinstance(error, ssl.SSLError):
        hint = "; the server may speak plain http there" if error.reason in _NOT_TLS else ""
        return f"TLS with {route.shown} failed: {(error.reason or str(error)).replace('_', ' ').lower()}{hint}"
    if isinstance(error, socket_constants.gaierror):
        host = route.proxy.host if route.proxy is not None else route.host
        return f"the name '{host}' cannot be resolved: {error.strerror or error}"
    if isinstance(error, OSError | UnicodeError):
        return f"no connection to {_way(route)}: {getattr(error, 'strerror', None) or error}"
    return None


_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
_CERTIFICATE_HINTS = {  # by OpenSSL's X509_V_ERR_*; the others mean a CA that is not known here
    9: "See whether the clocks are right",  # not yet valid
    10: "It has to be renewed",  # expired
    62: "Use a name that it is made out to",  # another host
    64: "Use a name that it is made out to",  # another IP address
}
