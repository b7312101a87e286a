"""The staircase: 1, 5, 20, 50 users, ten minutes each, unless --steps and --step-time say otherwise."""

from typing import ClassVar

from locust import events

from tokenswarm.steps import StepShape
from tokenswarm.wiring import register

register(events)


class StepLoad(StepShape):
    """Held from the moment all users of a step are up; the first --warmup of each hold is not counted."""

    name: ClassVar[str] = "stepload"
