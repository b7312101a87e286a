"""ChatUser against a session that says what is to be said, without a server."""

import types
from typing import Any

import pytest
from locust.exception import StopUser

from tokenswarm import users
from tokenswarm.errors import End
from tokenswarm.exchange import Exchange, Limits
from tokenswarm.users import PAUSE_AFTER_FAILURE_S, ChatUser, failed_at_once


def ended(end: End, status: int | None) -> Exchange:
    exchange = Exchange(b"", Limits())
    exchange.status = status
    exchange.finish(end, 0)
    return exchange


@pytest.mark.parametrize(
    ("end", "status", "failed"),
    [
        (End.COMPLETE, 200, False),
        (End.COMPLETE, 429, True),
        (End.RESET, 200, True),
        (End.CONNECT_FAILED, None, True),
        (End.TIMEOUT_TOTAL, 200, True),
    ],
)
def test_failures_that_are_known_without_reading_the_answer(end: End, status: int | None, failed: bool) -> None:
    assert failed_at_once(ended(end, status)) is failed


class Session:
    """Carries the next prompt of a workload to an answer that ends as told."""

    save_outputs = True
    max_tokens = 7

    def __init__(self, exchange: Exchange) -> None:
        self.asked: list[dict[str, Any]] = []
        self.reading = types.SimpleNamespace(exchange=exchange, answer=None)
        prompt = types.SimpleNamespace(messages=[{"role": "user", "content": "Hi"}], prompt_id="p1", expected_tokens=9)
        self.workload = types.SimpleNamespace(next=lambda: prompt)
        self.client = types.SimpleNamespace(chat=self.chat)

    def chat(self, messages: Any, **more: Any) -> Any:
        self.asked.append({"messages": messages, **more})
        return self.reading


def user_of(session: Session | None) -> ChatUser:
    return ChatUser(types.SimpleNamespace(tokenswarm=session))


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr(users.gevent, "sleep", taken.append)
    return taken


def test_a_user_asks_the_next_prompt_as_the_run_wants_it(pauses: list[float]) -> None:
    session = Session(ended(End.COMPLETE, 200))
    user_of(session).ask(task="t")
    (asked,) = session.asked
    assert asked["messages"] == [{"role": "user", "content": "Hi"}]
    assert (asked["task"], asked["prompt_id"], asked["expected_prompt_tokens"]) == ("t", "p1", 9)
    assert (asked["max_tokens"], asked["keep_text"]) == (7, True)
    assert pauses == []


def test_a_server_that_refuses_at_once_is_not_hammered(pauses: list[float]) -> None:
    user_of(Session(ended(End.CONNECT_FAILED, None))).ask()
    assert pauses == [PAUSE_AFTER_FAILURE_S]


def test_without_a_run_a_user_ends() -> None:
    with pytest.raises(StopUser):
        user_of(None).ask()


def test_users_have_names_of_their_own() -> None:
    assert user_of(None).name != user_of(None).name
