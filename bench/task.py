"""What a client process is asked to do, and the closed loop in which every one of them does it."""

import dataclasses
import json
import sys
from collections.abc import Callable
from typing import Any

import gevent
from gevent.event import Event

PROMPT = "Tell me, in the words of somebody who was there, how the first bridge over this river was built. " * 4


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """`streams` users, each asking for `tokens` tokens, all together, `rounds` times after one round to warm up."""

    url: str
    streams: int
    tokens: int
    rounds: int
    keep_text: bool = False  # compare arrivals with the truth in the tokens; else measure the cost
    watch_memory: bool = False

    @property
    def measured_tokens(self) -> int:
        return self.streams * self.tokens * self.rounds

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_arguments(cls) -> "Task":
        """The task that this process was started with."""
        return cls(**json.loads(sys.argv[1]))

    def body(self, user: int) -> dict[str, Any]:
        """A chat completion as this task asks for it."""
        return {
            "model": "bench",
            "messages": [{"role": "user", "content": f"{user}: {PROMPT}"}],
            "max_tokens": self.tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


class _Gate:
    """Opens when all have come, again and again; the last one to come calls `on_open` first."""

    def __init__(self, many: int, on_open: Callable[[], None]) -> None:
        self._many = many
        self._on_open = on_open
        self._here = 0
        self._opened = Event()

    def pass_through(self) -> None:
        self._here += 1
        opened = self._opened
        if self._here < self._many:
            opened.wait()
            return
        self._here, self._opened = 0, Event()
        self._on_open()
        opened.set()


def closed_loop(task: Task, ask: Callable[[int], None], warm: Callable[[], None]) -> None:
    """Every user asks, all wait for the last answer, all ask again at once. `warm` is called after the first round.

    The common restart is the hardest moment for a client: all answers have just ended and wait to be read, all requests
    are to be sent, and the first tokens are on their way.
    """
    opened = 0

    def on_open() -> None:
        nonlocal opened
        opened += 1
        if opened == 2:
            warm()

    gate = _Gate(task.streams, on_open)

    def user(number: int) -> None:
        for _ in range(task.rounds + 1):
            gate.pass_through()
            ask(number)

    gevent.joinall([gevent.spawn(user, number) for number in range(task.streams)], raise_error=True)
