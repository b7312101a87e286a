"""The openai client's own request, built once per shape and kept as a template.

The SDK owns URL, headers, authentication and parameters; building a request through it costs 0.7 ms of CPU, which a
tick in which two hundred users send cannot afford. So one request of each shape is built by it and caught before the wire;
after that only the messages and the length change (about 20 µs).
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import msgspec
import openai

from tokenswarm.exchange import Limits
from tokenswarm.route import Route
from tokenswarm.target import Target
from tokenswarm.transport import NO_KEY, request_head

Message = Mapping[str, Any]


def sdk(
    target: Target,
    transport: httpx2.BaseTransport,
    api_key: str | None,
    headers: Mapping[str, str],
    limits: Limits,
) -> openai.OpenAI:
    """An openai client for `target` over `transport`. It never retries: a hidden retry is a lie.

    Without a key no Authorization header is sent, but for credentials in the target's URL. Its time limits, unless a call
    has its own: `limits.connect_s`, and `limits.first_token_s` between two arrivals.
    """
    defaults = dict(headers)
    if target.userinfo is not None and not api_key:
        defaults.setdefault("Authorization", f"Basic {base64.b64encode(target.userinfo.encode()).decode('ascii')}")
    return openai.OpenAI(
        api_key=api_key or NO_KEY,
        base_url=target.base_url,
        default_query=dict(target.query) or None,
        default_headers=defaults,
        timeout=httpx2.Timeout(limits.first_token_s, connect=limits.connect_s),
        http_client=httpx2.Client(transport=transport),
        max_retries=0,
    )


class _Caught(httpx2.BaseTransport):
    """Keeps the request and answers in its place."""

    request: httpx2.Request | None = None

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        self.request = request
        return httpx2.Response(200, json={})


class Template:
    """`fill(messages, request_id)` gives the bytes of a whole request."""

    def __init__(self, head: bytes, parameters: Mapping[str, Any]) -> None:
        self._head = head
        self._before = msgspec.json.encode(parameters)[:-1] + b',"messages":'

    def fill(self, messages: Sequence[Message], request_id: str) -> bytes:
        body = self._before + msgspec.json.encode(messages) + b"}"
        return b"%sX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s" % (
            self._head,
            request_id.encode("ascii", "replace"),
            len(body),
            body,
        )


def make_template(
    target: Target,
    parameters: Mapping[str, Any],
    *,
    route: Route,
    api_key: str | None,
    headers: Mapping[str, str],
    fresh: bool = False,
) -> Template:
    """The template of `chat.completions.create(**parameters)`; extra body fields go in as `extra_body`."""
    caught = _Caught()
    client = sdk(target, caught, api_key, headers, Limits())
    client.chat.completions.with_raw_response.create(messages=[{"role": "user", "content": ""}], **parameters)
    request = caught.request
    assert request is not None
    body = msgspec.json.decode(request.content)
    del body["messages"]
    return Template(request_head(request, route, fresh=fresh), body)
