"""How far a worker's clock is from its master's: asked in rounds of messages, as NTP does.

In a round the worker reads its clock, asks, the master answers with its own clock, the worker reads its clock again. The
master's reading fell somewhere between the two, most likely in the middle: half of the round trip is the error bound, so
the quickest of several rounds counts.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable
from typing import Any

import gevent
from gevent.event import AsyncResult

MESSAGE = "tokenswarm_clock"  # the worker asks, the master answers
ROUNDS = 12
PAUSE_S = 0.04  # between rounds: one that met a busy moment is followed by one that does not
ANSWER_LIMIT_S = 1.0  # a round that takes longer tells nothing worth knowing


@dataclasses.dataclass(frozen=True, slots=True)
class ClockOffset:
    """Seconds by which a worker's clock is ahead of its master's, and how far at most the true value is from that."""

    offset_s: float
    uncertainty_s: float

    @property
    def low_s(self) -> float:
        return self.offset_s - self.uncertainty_s

    @property
    def high_s(self) -> float:
        return self.offset_s + self.uncertainty_s


SAME_CLOCK = ClockOffset(0.0, 0.0)  # of a process that runs on its master's machine


def of_round(asked_at: float, masters_at: float, heard_at: float) -> ClockOffset:
    """One round: the worker's clock, the master's, the worker's again, all epoch s."""
    return ClockOffset((asked_at + heard_at) / 2 - masters_at, (heard_at - asked_at) / 2)


def best(rounds: Iterable[ClockOffset]) -> ClockOffset | None:
    """The quickest round. One during which the clock was set back tells nothing."""
    return min(
        (found for found in rounds if found.uncertainty_s >= 0), key=lambda found: found.uncertainty_s, default=None
    )


def over_run(begin: ClockOffset | None, end: ClockOffset | None) -> ClockOffset | None:
    """One offset for a run, of those at its two ends: the surer one, where both can be true of a clock that did not drift.

    Where they cannot, the clocks went apart in the meantime: the middle, with an uncertainty that holds both.
    """
    if begin is None or end is None:
        return begin or end
    low_s, high_s = min(begin.low_s, end.low_s), max(begin.high_s, end.high_s)
    if max(begin.low_s, end.low_s) <= min(begin.high_s, end.high_s):
        return best((begin, end))
    return ClockOffset((low_s + high_s) / 2, (high_s - low_s) / 2)


def answer(asked: Any) -> dict[str, Any]:
    """The master's part of a round."""
    return {"number": asked["number"], "at": time.time()}


class Rounds:
    """The worker's part. `ask` sends to the master; `answered` is to be called with each answer, at once."""

    def __init__(self, ask: Callable[[dict[str, Any]], None], clock: Callable[[], float] = time.time) -> None:
        self._ask, self._clock = ask, clock
        self._waiting: dict[int, AsyncResult] = {}
        self._number = 0

    def answered(self, told: Any) -> None:
        heard_at = self._clock()
        waiting = self._waiting.get(told["number"])
        if waiting is not None:
            waiting.set((float(told["at"]), heard_at))

    def measure(self) -> ClockOffset | None:
        """Waits some tenths of a second; None where the master does not answer."""
        found: list[ClockOffset] = []
        for _ in range(ROUNDS):
            one = self._round()
            if one is None and not found:
                return None
            if one is not None:
                found.append(one)
            gevent.sleep(PAUSE_S)
        return best(found)

    def _round(self) -> ClockOffset | None:
        self._number += 1
        number, waiting = self._number, AsyncResult()
        self._waiting[number] = waiting
        try:
            asked_at = self._clock()
            self._ask({"number": number})
            return of_round(asked_at, *waiting.get(timeout=ANSWER_LIMIT_S))
        except gevent.Timeout:
            return None
        finally:
            del self._waiting[number]
