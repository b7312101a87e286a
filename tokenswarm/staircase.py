"""How a concurrency staircase moves: a pure function of time and users, so its tests are tables.

A step's hold counts from the moment all its users are up, not from the moment they were asked for.
"""

import dataclasses
from collections.abc import Callable, Sequence

from tokenswarm.record import StepRecord


class Staircase:
    """`steps`: users of each step. `on_step` gets each step's record when it has ended. Times are epoch seconds."""

    def __init__(self, steps: Sequence[int], hold_s: float, on_step: Callable[[StepRecord], None]) -> None:
        self.steps = tuple(steps)
        self.hold_s = hold_s
        self.current: StepRecord | None = None
        self.complete = False
        self._on_step = on_step

    def tick(self, at: float, users: int) -> int | None:
        """Users that should run now, given that `users` do; None when the last step has been held."""
        if self.complete:
            return None
        step = self.current
        if step is None:
            return self._begin(1, at)
        if step.settled_at is None:
            if users == step.target_users:
                self.current = dataclasses.replace(step, settled_at=at)
            return step.target_users
        if at - step.settled_at < self.hold_s:
            return step.target_users
        self.stop(at)
        if step.step == len(self.steps):
            self.complete = True
            return None
        return self._begin(step.step + 1, at)

    def stop(self, at: float) -> None:
        """The present step ends, held to its end or not."""
        if self.current is not None:
            self._on_step(dataclasses.replace(self.current, ended_at=at))
            self.current = None

    def left_s(self, at: float) -> float | None:
        """Seconds of hold that are left in this step; None while its users come up."""
        if self.current is None or self.current.settled_at is None:
            return None
        return max(0.0, self.hold_s - (at - self.current.settled_at))

    def _begin(self, number: int, at: float) -> int:
        users = self.steps[number - 1]
        self.current = StepRecord(step=number, target_users=users, started_at=at)
        return users
