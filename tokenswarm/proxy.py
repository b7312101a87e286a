"""Which proxy leads to a host, from the usual environment variables, and the tunnel through it.

HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name it (in small letters too); NO_PROXY lists hosts, domains, `host:port` and networks
(10.0.0.0/8) that are reached without. A loopback address means this machine to proxies of this machine only: it is reached
through a proxy only where that is on the loopback too.
"""

import base64
import contextlib
import dataclasses
import ipaddress
import urllib.parse
import urllib.request

from gevent import socket

from tokenswarm.usage_error import UsageError

ANSWER_BYTES = 16384


class ConnectError(UsageError):
    """No connection: DNS, refused, time-out, proxy or TLS. The message is for people."""


@dataclasses.dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy. `auth` is the value of Proxy-Authorization."""

    host: str
    port: int
    auth: str | None = dataclasses.field(default=None, repr=False)

    @property
    def shown(self) -> str:
        return join(self.host, self.port)


def join(host: str, port: int) -> str:
    """`host:port` as it stands in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def proxy_for(scheme: str, host: str, port: int) -> Proxy | None:
    """The proxy on the way to `host`, or None. Raises ConnectError where it is of a kind that cannot be used."""
    variables = urllib.request.getproxies()
    variable = scheme if variables.get(scheme) else "all"
    text = variables.get(variable)
    if not text or _excepted(host, port, variables.get("no", "")):
        return None
    try:
        parts = urllib.parse.urlsplit(text if "://" in text else f"http://{text}")
        named, at = parts.hostname, parts.port or 80
    except ValueError:
        parts, named, at = urllib.parse.urlsplit(""), None, 0
    if parts.scheme != "http" or not named:
        kind = f"is a {parts.scheme}:// proxy in" if parts.scheme not in ("http", "") else "cannot be read from"
        raise ConnectError(
            f"The proxy for {host} {kind} {variable.upper()}_PROXY: only http:// proxies can be used here. "
            f"Name one, or set NO_PROXY={host} to go without."
        )
    if _is_loopback(host) and not _is_loopback(named):
        return None
    auth = None
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        auth = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    return Proxy(named, at, auth)


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


def _excepted(host: str, port: int, no_proxy: str) -> bool:
    """Whether NO_PROXY names `host`."""
    return any(_names(entry, host.lower(), port) for entry in no_proxy.lower().replace(",", " ").split())


def _names(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    with contextlib.suppress(ValueError):
        network = ipaddress.ip_network(entry.strip("[]"), strict=False)
        with contextlib.suppress(ValueError):
            return ipaddress.ip_address(host) in network
        return False
    name, colon, digits = entry.rpartition(":")
    if colon and digits.isdigit():
        if int(digits) != port:
            return False
        entry = name.strip("[]")
    entry = entry.removeprefix("*").removeprefix(".")
    return bool(entry) and (host == entry or host.endswith("." + entry))


def open_tunnel(sock: socket.socket, proxy: Proxy, host: str, port: int) -> None:
    """Ask `proxy`, to which `sock` is connected, for a tunnel. Raises ConnectError where it refuses, OSError if it breaks."""
    where = join(host, port)
    auth = f"Proxy-Authorization: {proxy.auth}\r\n" if proxy.auth else ""
    sock.sendall(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n{auth}\r\n".encode("latin-1"))
    answer = b""
    while not answer.endswith(b"\r\n\r\n") and len(answer) < ANSWER_BYTES:
        data = sock.recv(1)  # to the last byte of the head and not beyond: what follows belongs to TLS
        if not data:
            break
        answer += data
    line = answer.split(b"\r\n", 1)[0].decode("latin-1")
    status = [*line.split(), "", ""][1]
    if line.startswith("HTTP/") and status.startswith("2") and answer.endswith(b"\r\n\r\n"):
        return
    if status == "407":
        raise ConnectError(refused_credentials(proxy))
    said = f"it said: {line[:200]!r}" if line else "it closed the connection"
    raise ConnectError(f"the proxy {proxy.shown} refused a tunnel to {where}; {said}")


def refused_credentials(proxy: Proxy) -> str:
    if proxy.auth:
        return f"the proxy {proxy.shown} refused the user and password of its address (407)"
    return f"the proxy {proxy.shown} wants a user and password (407): write them into its address, http://user:password@{proxy.shown}"
