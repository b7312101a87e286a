"""How many servers like the measured one a number of users needs, from what was measured and nothing beyond."""

import dataclasses
import math

from analysis.capacity import Capacity

HEADROOM = 0.30  # of the capacity left free: a lost replica, a burst, a longer prompt


@dataclasses.dataclass(frozen=True, slots=True)
class Replicas:
    """`count` replicas, each loaded with at most `per_replica × (1 − headroom)` of the users."""

    users: int
    per_replica: int  # users at which one replica was measured to meet the objectives
    headroom: float
    count: int
    at_most: bool  # no step missed: one replica may carry more than was measured


def replicas(capacity: Capacity, users: int, headroom: float = HEADROOM) -> Replicas | None:
    """None where no step met the objectives. Raises ValueError for fewer than 1 user or a headroom outside [0, 1)."""
    if users < 1 or not 0 <= headroom < 1:
        raise ValueError(f"expected users of 1 or more and a headroom from 0 to below 1, not {users} and {headroom}")
    if capacity.largest is None:
        return None
    carried = capacity.largest.users
    count = math.ceil(users / (carried * (1 - headroom)) - 1e-9)  # 14 / (20 × 0.7) is 1, whatever floats say
    return Replicas(users, carried, headroom, count, at_most=capacity.first_missed is None)
