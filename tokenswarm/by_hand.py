"""The steps of a load that has no scenario: one begins whenever Locust says that all its users are up."""

import dataclasses
from collections.abc import Callable

from tokenswarm.record import StepRecord


class StepsByHand:
    """`on_step` gets each step's record when it has ended. Times are epoch seconds."""

    def __init__(self, started_at: float, on_step: Callable[[StepRecord], None]) -> None:
        self.current: StepRecord | None = None
        self.ended: list[StepRecord] = []
        self._started_at = started_at
        self._on_step = on_step

    @property
    def steps(self) -> tuple[int, ...]:
        """Users of each step so far."""
        return tuple(step.target_users for step in (*self.ended, *filter(None, [self.current])))

    @property
    def last(self) -> StepRecord | None:
        return self.ended[-1] if self.ended else None

    @property
    def hold_s(self) -> float:
        """The longest hold of all steps that have ended; 0 before the first."""
        return max(
            (step.ended_at - step.settled_at for step in self.ended if step.ended_at and step.settled_at), default=0
        )

    def settled(self, at: float, users: int) -> None:
        """All users are up. The same number again, after a rebalancing, say, is no new step."""
        if users == 0 or (self.current is not None and self.current.target_users == users):
            return
        self.stop(at)
        number, started_at = len(self.ended) + 1, at if self.ended else self._started_at
        self.current = StepRecord(step=number, target_users=users, started_at=started_at, settled_at=at)

    def stop(self, at: float) -> None:
        """The present step ends."""
        if self.current is not None:
            self.ended.append(dataclasses.replace(self.current, ended_at=at))
            self.current = None
            self._on_step(self.ended[-1])

    def left_s(self, at: float) -> float | None:
        """Nobody said how long it will be held."""
        return None
