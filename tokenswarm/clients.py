"""What the master knows of the processes with users: who records, who has closed its files, who is lost.

Rows are whole and all there only when every worker has said that its files are closed, and are in the run's folder; before
that the run is not over.
"""

import math
import os
import time
from typing import Any

import gevent
import locust.runners

from tokenswarm.clock_offset import ClockOffset

MESSAGE = "tokenswarm_client"  # a worker's: it records now, or it has closed its files
CLOSE = "tokenswarm_close"  # the master's: stop your users and close your files
SILENCE_S = 8  # Locust's 3 s without a heartbeat are no death on a busy machine
NOTHING = {"worker": None, "rows": 0}  # the last answer to CLOSE: no file of this worker is open
CLOSE_LIMIT_S = 75.0  # more than a session takes at most to read what has ended; begins anew with each piece of a file
UNKNOWN_LIMIT_S = 35.0  # more than a worker waits for an answer to a piece before it gives up
LOST = "lost"  # of what run.json says of a worker: not all that it wrote is in the run's folder
KEPT_AT = "kept_at"


def client_info(
    *, clock: ClockOffset | None, rows: int | None, kept_at: str | None = None, why_kept: str | None = None
) -> dict[str, Any]:
    """What this process tells of itself. `kept_at`: host:folder of its rows while the run's folder has them not."""
    told = {
        "pid": os.getpid(),
        "clock_offset_s": None if clock is None else clock.offset_s,
        "clock_uncertainty_s": None if clock is None else clock.uncertainty_s,
        "rows": rows,
    }
    kept = {KEPT_AT: kept_at, "why_kept": why_kept}
    return told | {name: value for name, value in kept.items() if value is not None}


def bear_silence() -> None:
    """At the master, before workers come. Locust has no option for it."""
    locust.runners.HEARTBEAT_LIVENESS = SILENCE_S


class Clients:
    """Of one run. `told` and `heard` take a worker's messages; `worker_of` and `lost` are for the run, the rest for its end."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, Any]] = {}  # Locust's client id → what it told
        self._closed: dict[str, dict[str, Any]] = {}
        self._kept: dict[str, dict[str, Any]] = {}  # closed, but the files did not come over
        self._heard_s: dict[str, float] = {}  # Locust's client id → when it was heard of, monotonic s

    def told(self, client_id: str, told: dict[str, Any]) -> None:
        """`rows` None: it records, or, told again, has something to say yet. `worker` None: it has nothing (more) to close."""
        if told["worker"] is None:
            if client_id not in self._kept:
                self._closed.setdefault(client_id, told)
        elif told["rows"] is None:
            if client_id in self._open:
                self.heard(client_id)
            self._open[client_id] = told
        else:
            self._open.pop(client_id, None)
            (self._kept if KEPT_AT in told else self._closed)[client_id] = told

    def heard(self, client_id: str) -> None:
        """It is at work for the run's end: a piece of a file came from it, say."""
        if client_id in self._open:  # nobody else can keep the run waiting
            self._heard_s[client_id] = time.monotonic()

    def worker_of(self, client_id: str) -> str | None:
        """The worker that records at `client_id` and may hand over its files; None where there is none."""
        told = self._open.get(client_id)
        return None if told is None else told["worker"]

    def close(self, runner: Any) -> None:
        """Let every worker close its files; return when all have, or will not any more.

        All are asked: one that was told to start a moment ago has not said yet that it records. It is a message of our own:
        after Locust's `stop` a worker is unknown to the master for a moment, and a `quit` at that moment would not reach it.
        """
        asked = [node.id for node in runner.clients.all]
        asked += [
            client_id for client_id in self._heard_s if client_id not in asked
        ]  # it hands over its files just now
        for client_id in asked:
            runner.send_message(CLOSE, client_id=client_id)
        began_s = time.monotonic()
        while any(self._waits_for(runner, client_id, began_s) for client_id in asked):
            gevent.sleep(0.05)

    def _waits_for(self, runner: Any, client_id: str, began_s: float) -> bool:
        if client_id in self._closed or client_id in self._kept:
            return False
        silent_s = time.monotonic() - max(began_s, self._heard_s.get(client_id, began_s))
        return silent_s < CLOSE_LIMIT_S and self._alive(runner, client_id)

    def _alive(self, runner: Any, client_id: str) -> bool:
        """Between Locust's `stop` and its being ready again a worker is unknown; one that is heard of lives."""
        node = runner.clients.get(client_id)
        if node is None:
            return time.monotonic() - self._heard_s.get(client_id, -math.inf) < UNKNOWN_LIMIT_S
        return node.state != "missing"

    def lost(self, runner: Any) -> list[str]:
        """Workers that recorded and are gone without having closed their files, or without having handed them over."""
        gone = [told["worker"] for client_id, told in self._open.items() if not self._alive(runner, client_id)]
        return gone + [told["worker"] for told in self._kept.values()]

    @property
    def all_lost(self) -> bool:
        """None has closed its files, or even said that it records."""
        return not self._closed

    def missing(self) -> list[str]:
        """A sentence for each worker on another machine whose rows are not in the run's folder: where they are."""
        return [
            f"The rows of worker {told['worker']} are not in this run; they are kept in {told[KEPT_AT]}. "
            f"{told.get('why_kept') or 'It was gone before it could hand them over.'}"
            for told in (*self._open.values(), *self._kept.values())
            if KEPT_AT in told
        ]

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Worker → what `run.json` says of it. `lost`: it never said that its files are closed, or they did not come over."""
        lost = [*self._open.values(), *self._kept.values()]
        both = [(told, True) for told in lost] + [(told, False) for told in self._closed.values()]
        return {
            told["worker"]: {**_without_worker(told), LOST: gone} for told, gone in both if told["worker"] is not None
        }


def _without_worker(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "worker"}
