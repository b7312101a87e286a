"""Where a server is: a base URL as people write it, and the address that it comes to."""

import dataclasses
import re
import urllib.parse

from tokenswarm.usage_error import UsageError

ENDPOINTS = ("/chat/completions", "/completions", "/models", "/responses", "/embeddings")
UNIX_HOST = "localhost"  # what a server behind a unix socket is called in its requests
_SECRET = re.compile(r"key|token|secret|passw|sig|auth|^code$", re.I)  # names of query fields that may hold one


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """`base_url` without a trailing slash, query or credentials; what they held stands beside it."""

    base_url: str
    query: tuple[tuple[str, str], ...] = dataclasses.field(default=(), repr=False)
    userinfo: str | None = dataclasses.field(default=None, repr=False)  # "user:password", unescaped: never shown
    unix_socket: str | None = None

    @property
    def address(self) -> str:
        """The base URL fit to be shown; a unix target as it is written on the command line."""
        if self.unix_socket is None:
            return self.base_url
        return f"unix:{self.unix_socket}:{urllib.parse.urlsplit(self.base_url).path}"

    @property
    def chat_url(self) -> str:
        """The URL that chat completions are posted to, fit to be shown."""
        return self.shown_url("/chat/completions")

    def shown_url(self, endpoint: str) -> str:
        """The URL of `endpoint` ("/models") as it is asked, but for fields of the query that may be secrets."""
        shown = [(name, "***" if _SECRET.search(name) else value) for name, value in self.query]
        query = f"?{urllib.parse.urlencode(shown, safe='*')}" if shown else ""
        return f"{self.address}{endpoint}{query}"

    @property
    def root_url(self) -> str:
        """Scheme, host and port alone: where `/metrics`, `/health` and `/version` are."""
        parts = urllib.parse.urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}"


def parse_targets(text: str) -> "tuple[Target, ...]":
    """Several, separated by commas. Raises UsageError."""
    return tuple(parse_target(part) for part in text.split(","))


def parse_target(text: str) -> Target:
    """`text` as a target: with or without scheme, `/v1`, slashes, an endpoint's path, a query, credentials.

    Without a path the API is taken to be at `/v1`; any other path is kept. Raises UsageError, which shows no credentials.
    """
    url = text = text.strip()
    unix_socket = None
    if text.startswith("unix:"):  # unix:/run/llm.sock or unix:/run/llm.sock:/v1
        unix_socket, _, path = text.removeprefix("unix:").removeprefix("//").partition(":")
        if not unix_socket.startswith("/"):
            raise UsageError(f"'{text}' is no unix target; write unix:/path/to/socket or unix:/path/to/socket:/v1")
        url = f"http://{UNIX_HOST}{path}"
    if "://" not in url.partition("?")[0]:
        url = "http://" + url
    shown = re.sub(r"^((?:\w+://)?).*@", r"\1", text)
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # a label that is empty or too long
    except ValueError as error:
        why = str(error.__cause__ or error) if "@" not in text else "its address cannot be read"
        raise UsageError(f"'{shown}' is no URL ({why}); write it like http://host:8000/v1") from None
    if parts.scheme not in ("http", "https") or not host or host.startswith(".") or re.search(r"[\s\x00-\x1f]", url):
        raise UsageError(f"'{shown}' is no http(s) URL; write it like http://host:8000/v1")
    path = parts.path.rstrip("/")
    named = next((endpoint for endpoint in ENDPOINTS if path.endswith(endpoint)), "")
    path = path.removesuffix(named).rstrip("/")
    netloc = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    userinfo = parts.netloc.rpartition("@")[0]
    return Target(
        f"{parts.scheme}://{netloc}{path or ('' if named else '/v1')}",
        tuple(urllib.parse.parse_qsl(parts.query, keep_blank_values=True)),
        urllib.parse.unquote(userinfo) or None,
        unix_socket,
    )
