"""ChatUser: the Locust side. A user sends a prompt, waits for the end of its answer, sends the next."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gevent
from locust import User, constant
from locust.exception import StopUser

from tokenswarm.errors import End
from tokenswarm.exchange import Exchange
from tokenswarm.template import Message

if TYPE_CHECKING:
    from tokenswarm.digest import Reading
    from tokenswarm.session import Session

PAUSE_AFTER_FAILURE_S = 0.5  # a server that refuses at once is not hammered by a closed loop
GOOD_STATUS = 400

_numbers = itertools.count(1)


def failed_at_once(exchange: Exchange) -> bool:
    """Whether the request is known to have failed without reading its answer."""
    return exchange.end is not End.COMPLETE or exchange.status is None or exchange.status >= GOOD_STATUS


class ChatUser(User):
    """A closed-loop user: no think time unless `wait_time` says so. Subclass it, give it tasks that call `ask`.

    The record of a request is made whatever happens; it does not have to be waited for.
    """

    abstract = True
    wait_time = constant(0)

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self.name = f"{type(self).__name__}-{next(_numbers)}"

    @property
    def session(self) -> "Session":
        """What this process's users share: client, workload, recorder. Without it (the run could not begin) the user ends."""
        session = self.environment.tokenswarm
        if session is None:
            raise StopUser
        return session

    def ask(self, *, task: str = "chat") -> "Reading":
        """Send the workload's next prompt; returns at the end of the answer."""
        session = self.session
        prompt = session.workload.next()
        return self._carry(
            prompt.messages,
            task=task,
            prompt_id=prompt.prompt_id,
            expected_prompt_tokens=prompt.expected_tokens,
            keep_text=session.save_outputs,
        )

    def chat(self, messages: Sequence[Message], *, task: str = "chat", **more: Any) -> str:
        """Send `messages` and return the text of the answer, as a conversation needs it. Empty if there was none."""
        reading = self._carry(messages, task=task, keep_text=True, await_record=True, **more)
        return reading.answer.text if reading.answer is not None else ""

    def _carry(self, messages: Sequence[Message], *, task: str, **more: Any) -> "Reading":
        session = self.session
        reading = session.client.chat(
            messages, user=self.name, task=task, max_tokens=more.pop("max_tokens", session.max_tokens), **more
        )
        if failed_at_once(reading.exchange):
            gevent.sleep(PAUSE_AFTER_FAILURE_S)
        return reading
