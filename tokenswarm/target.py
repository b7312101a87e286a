"""Where a server is: a base URL as people write it, and the address that it comes to."""

import dataclasses
import urllib.parse

from tokenswarm.usage_error import UsageError

ENDPOINTS = ("/chat/completions", "/completions", "/models", "/responses", "/embeddings")


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """`base_url` without a trailing slash, query or credentials; what they held stands beside it."""

    base_url: str
    query: tuple[tuple[str, str], ...] = ()
    userinfo: str | None = dataclasses.field(default=None, repr=False)  # "user:password": never shown
    unix_socket: str | None = None

    @property
    def chat_url(self) -> str:
        """The URL that chat completions are posted to, fit to be shown."""
        query = f"?{urllib.parse.urlencode(self.query)}" if self.query else ""
        return f"{self.base_url}/chat/completions{query}"

    @property
    def root_url(self) -> str:
        """Scheme, host and port alone: where `/metrics`, `/health` and `/version` are."""
        parts = urllib.parse.urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc}"


def parse_target(text: str) -> Target:
    """`text` as a target: with or without scheme, `/v1`, slashes, an endpoint's path, a query.

    Without a path the API is taken to be at `/v1`; any other path is kept. Raises UsageError.
    """
    text = text.strip()
    unix_socket = None
    if text.startswith("unix:"):  # unix:/run/llm.sock or unix:/run/llm.sock:/v1
        unix_socket, _, path = text.removeprefix("unix:").removeprefix("//").partition(":")
        if not unix_socket.startswith("/"):
            raise UsageError(f"'{text}' is no unix target; write unix:/path/to/socket")
        text = "http://localhost" + path
    if "://" not in text:
        text = "http://" + text
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"'{text}' is no URL ({error}); write it like http://host:8000/v1") from None
    if parts.scheme not in ("http", "https") or not host or any(char.isspace() for char in text):
        raise UsageError(f"'{text}' is no http(s) URL; write it like http://host:8000/v1")
    path = parts.path.rstrip("/")
    for endpoint in ENDPOINTS:
        path = path.removesuffix(endpoint).rstrip("/")
    netloc = (f"[{host}]" if ":" in host else host) + (f":{port}" if port is not None else "")
    userinfo = parts.netloc.rpartition("@")[0] or None
    query = tuple(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    return Target(f"{parts.scheme}://{netloc}{path or '/v1'}", query, userinfo, unix_socket)
