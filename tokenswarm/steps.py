"""The staircase as a Locust load shape: the abstract base that `scenarios/stepload.py` is thin over."""

import time
from typing import Any, ClassVar

from locust import LoadTestShape

from tokenswarm.options import resolve
from tokenswarm.staircase import Staircase


class StepShape(LoadTestShape):
    """Steps, hold and warm-up come from the run's options; each finished step is written to the run folder."""

    abstract: ClassVar[bool] = True
    name: ClassVar[str]  # of the scenario, in run.json
    staircase: Staircase | None = None

    def tick(self) -> tuple[int, float] | None:
        runner: Any = self.runner
        environment = runner.environment
        if self.staircase is None:
            options = resolve(environment.parsed_options)
            # the run begins after the first tick: ask for it when a step has ended, not before
            self.staircase = Staircase(
                options.steps, options.step_time_s, lambda record: environment.tokenswarm_run.step_ended(record)
            )
        elif environment.tokenswarm_run is None:  # it could not begin
            return None
        users = self.staircase.tick(time.time(), runner.user_count)
        # all at once: the start burst is a cohort of its own in the analysis, and a ramp would only lengthen the step
        return None if users is None else (users, max(users, 1) + lost_workers(runner))

    def stop(self) -> None:
        """Users are about to be stopped: the present step ends now, not after the last of them."""
        if self.staircase is not None:
            self.staircase.stop(time.time())

    def finish(self) -> bool:
        """The run is over, be ready for the next one. True if every step was held to its end."""
        staircase, self.staircase = self.staircase, None
        return staircase is not None and staircase.complete


def lost_workers(runner: Any) -> int:
    """Added to the spawn rate, it makes Locust, which acts on a changed tick only, deal a lost worker's users out again."""
    return len(runner.clients.missing) if hasattr(runner, "clients") else 0
