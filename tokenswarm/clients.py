"""What the master knows of the processes with users: who records, who has closed its files, who is lost.

Rows are whole and all there only when every worker has said that its files are closed; before that the run is not over.
"""

import time
from typing import Any

import gevent
import locust.runners

MESSAGE = "tokenswarm_client"  # a worker's: it records now, or it has closed its files
CLOSE = "tokenswarm_close"  # the master's: stop your users and close your files
SILENCE_S = 8  # Locust's 3 s without a heartbeat are no death on a busy machine
NOTHING = {"worker": None, "rows": 0}  # the last answer to CLOSE: no file of this worker is open
CLOSE_LIMIT_S = 75.0  # more than a session takes at most to read what has ended


def bear_silence() -> None:
    """At the master, before workers come. Locust has no option for it."""
    locust.runners.HEARTBEAT_LIVENESS = SILENCE_S


class Clients:
    """Of one run. `told` takes a worker's messages; the other methods are for the end."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, Any]] = {}  # Locust's client id → what it told
        self._closed: dict[str, dict[str, Any]] = {}

    def told(self, client_id: str, told: dict[str, Any]) -> None:
        """`rows` None: it records. `worker` None: it has nothing (more) to close."""
        if told["worker"] is None:
            self._closed.setdefault(client_id, told)
        elif told["rows"] is None:
            self._open[client_id] = told
        else:
            self._open.pop(client_id, None)
            self._closed[client_id] = told

    def close(self, runner: Any) -> None:
        """Let every worker close its files; return when all have, or will not any more.

        All are asked: one that was told to start a moment ago has not said yet that it records. It is a message of our own:
        after Locust's `stop` a worker is unknown to the master for a moment, and a `quit` at that moment would not reach it.
        """
        asked = [node.id for node in runner.clients.all]
        for client_id in asked:
            runner.send_message(CLOSE, client_id=client_id)
        deadline_s = time.monotonic() + CLOSE_LIMIT_S
        while self._waits_for(runner, asked) and time.monotonic() < deadline_s:
            gevent.sleep(0.05)

    def _waits_for(self, runner: Any, asked: list[str]) -> bool:
        return any(client_id not in self._closed and _alive(runner, client_id) for client_id in asked)

    def lost(self, runner: Any) -> list[str]:
        """Workers that recorded and are gone without having closed their files."""
        return [told["worker"] for client_id, told in self._open.items() if not _alive(runner, client_id)]

    @property
    def all_lost(self) -> bool:
        """None has closed its files, or even said that it records."""
        return not self._closed

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Worker → what `run.json` says of it. `lost`: it never said that its files are closed."""
        both = [(told, True) for told in self._open.values()] + [(told, False) for told in self._closed.values()]
        return {
            told["worker"]: {**_without_worker(told), "lost": lost} for told, lost in both if told["worker"] is not None
        }


def _without_worker(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "worker"}


def _alive(runner: Any, client_id: str) -> bool:
    node = runner.clients.get(client_id)
    return node is not None and node.state != "missing"
