"""Base URLs as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reach.scripted import STREAM, Scripted, always, ask, chatting
from tokenswarm.target import parse_target
from tokenswarm.usage_error import UsageError

SPELLINGS = {
    "http://h:8000": "http://h:8000/v1/chat/completions",
    "http://h:8000/": "http://h:8000/v1/chat/completions",
    "http://h:8000/v1": "http://h:8000/v1/chat/completions",
    "http://h:8000/v1/": "http://h:8000/v1/chat/completions",
    "http://h:8000/v1//": "http://h:8000/v1/chat/completions",
    "  http://h:8000/v1\n": "http://h:8000/v1/chat/completions",
    "http://h:8000/v1/chat/completions": "http://h:8000/v1/chat/completions",
    "http://h:8000/v1/models/": "http://h:8000/v1/chat/completions",
    "http://h/chat/completions": "http://h/chat/completions",  # named as it is: no /v1
    "http://h/api/v3": "http://h/api/v3/chat/completions",
    "http://h/v1beta/openai/": "http://h/v1beta/openai/chat/completions",
    "http://h/openai/deployments/d1?api-version=2024-06-01": (
        "http://h/openai/deployments/d1/chat/completions?api-version=2024-06-01"
    ),
    "http://h/v1?a=1&b=&a=x%20y": "http://h/v1/chat/completions?a=1&b=&a=x+y",
    "h:8000": "http://h:8000/v1/chat/completions",
    "localhost:8000/v1": "http://localhost:8000/v1/chat/completions",
    "10.0.0.1": "http://10.0.0.1/v1/chat/completions",
    "[::1]:8000": "http://[::1]:8000/v1/chat/completions",
    "https://[2001:db8::1]/v1": "https://[2001:db8::1]/v1/chat/completions",
    "HTTPS://H.example/V1": "https://h.example/V1/chat/completions",
    "http://me:pw@h/v1": "http://h/v1/chat/completions",
    "http://h/my%20models/v1": "http://h/my%20models/v1/chat/completions",
    "http://h/v1?api-key=abc&x=1": "http://h/v1/chat/completions?api-key=***&x=1",
    "unix:/run/llm.sock": "unix:/run/llm.sock:/v1/chat/completions",
    "unix:///run/llm.sock:/api": "unix:/run/llm.sock:/api/chat/completions",
}


@pytest.mark.parametrize("text", SPELLINGS)
def test_spelling(text: str) -> None:
    assert parse_target(text).chat_url == SPELLINGS[text]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/chat/completions", "/chat/completions"),
        ("/api/v3", "/api/v3/chat/completions"),
        (
            "/openai/deployments/d1?api-version=2024-06-01",
            "/openai/deployments/d1/chat/completions?api-version=2024-06-01",
        ),
        ("/a%20b/v1?q=%C3%A9%26", "/a%20b/v1/chat/completions?q=%C3%A9%26"),
        ("/v1?key=s3cr3t", "/v1/chat/completions?key=s3cr3t"),
    ],
)
def test_what_goes_over_the_wire(path: str, asked: str) -> None:
    """Under load (the template) and from the SDK's own calls: the same URL."""
    with Scripted(always(STREAM)) as server, chatting(server.url + path) as (client, _):
        assert ask(client).outcome == "ok"
        list(client.openai.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=True))
        assert [request.target for request in server.requests] == [asked, asked]
        assert {request.headers["host"] for request in server.requests} == {f"127.0.0.1:{server.port}"}


def test_credentials_in_the_url_are_sent_unescaped_and_shown_nowhere() -> None:
    with Scripted(always(STREAM)) as server, chatting(f"http://me:p%40ss@127.0.0.1:{server.port}") as (client, _):
        ask(client)
        assert server.requests[0].headers["authorization"] == "Basic bWU6cEBzcw=="  # me:p@ss
        target = client.settings.targets[0]
        assert "p%40ss" not in repr(client.settings) + target.chat_url
        assert "p@ss" not in repr(client.settings) + target.chat_url


NO_ADDRESSES = (
    *(
        "",
        "ftp://h",
        "http://",
        "http://u:pw5@",
        "http://u:pw5@h:99999",
        "http://u:pw5@h:x/v1",
        "http://a..b/",
        "unix:rel",
    ),
    *("http://h h/v1", "http://[::1", f"http://{'a' * 64}.de", "http://.h/", "http://h/v\x001"),
)


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_no_address(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_target(text)
    assert "write" in str(raised.value)
    assert "pw5" not in str(raised.value)


@given(st.text())
def test_any_text_is_a_target_or_a_usage_error(text: str) -> None:
    try:
        target = parse_target(text)
    except UsageError:
        return
    assert target.base_url.startswith(("http://", "https://"))
    assert "@" not in target.base_url.split("/")[2]
