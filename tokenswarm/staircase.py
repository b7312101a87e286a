"""How a concurrency staircase moves: a pure function of time and users, so its tests are tables.

A step's hold counts from the moment all its users are up, not from the moment they were asked for.
"""

import dataclasses
from collections.abc import Callable, Sequence

from tokenswarm.record import StepRecord

SETTLE_LIMIT_S = 15.0  # without one more user: those who are missing will not come, a lost worker's, say


class Staircase:
    """`steps`: users of each step. `on_step` gets each step's record when it has ended. Times are epoch seconds."""

    def __init__(self, steps: Sequence[int], hold_s: float, on_step: Callable[[StepRecord], None]) -> None:
        self.steps = tuple(steps)
        self.hold_s = hold_s
        self.current: StepRecord | None = None
        self.complete = False
        self.last: StepRecord | None = None  # the step that has ended last
        self._stopped = False
        self._seen = (0, 0.0)  # users, and since when so many
        self._on_step = on_step

    def tick(self, at: float, users: int) -> int | None:
        """Users that should run now, given that `users` do; None when the last step has been held."""
        if self.complete or self._stopped:
            return None
        step = self.current
        if step is None:
            return self._begin(1, at)
        if step.settled_at is None:
            if users != self._seen[0]:
                self._seen = users, at
            if users == step.target_users or at - self._seen[1] > SETTLE_LIMIT_S:
                self.current = dataclasses.replace(step, settled_at=at)
            return step.target_users
        if at - step.settled_at < self.hold_s:
            return step.target_users
        self._end(at)
        if step.step == len(self.steps):
            self.complete = True
            return None
        return self._begin(step.step + 1, at)

    def stop(self, at: float) -> None:
        """The load ends, in mid step or not. Nothing begins after it."""
        self._stopped = True
        self._end(at)

    def _end(self, at: float) -> None:
        if self.current is not None:
            self.last, self.current = dataclasses.replace(self.current, ended_at=at), None
            self._on_step(self.last)

    def left_s(self, at: float) -> float | None:
        """Seconds of hold that are left in this step; None while its users come up."""
        if self.current is None or self.current.settled_at is None:
            return None
        return max(0.0, self.hold_s - (at - self.current.settled_at))

    def _begin(self, number: int, at: float) -> int:
        users = self.steps[number - 1]
        self._seen = -1, at
        self.current = StepRecord(step=number, target_users=users, started_at=at)
        return users
