"""A closed loop of users on the simulator's engine in virtual time: a real scheduler, no clock, no luck."""

import dataclasses
import random
from collections.abc import Sequence as Listed
from pathlib import Path
from typing import Any

from run_on_paper import T0, ok, step, write_run

from simulator.engine import Engine, EngineSettings, Sequence
from tokenswarm.record import RequestRecord, StepRecord


@dataclasses.dataclass(slots=True)
class _Open:
    user: str
    sent_s: float
    times_s: list[float]


class _Loop:
    def __init__(self, settings: EngineSettings, prompt_tokens: int, output_tokens: tuple[int, int]) -> None:
        self.engine = Engine(settings)
        self.now_s = 0.0
        self.users = 0
        self.rows: list[RequestRecord] = []
        self._open: dict[Sequence, _Open] = {}
        self._prompt, self._output = prompt_tokens, output_tokens
        self._lengths = random.Random(7)  # answers of equal length would end, and start again, in one tick

    def send(self, user: str) -> None:
        sequence = Sequence(f"r{len(self.rows) + len(self._open)}", self._prompt, self._lengths.randint(*self._output))
        self.engine.submit(sequence)
        self._open[sequence] = _Open(user, self.now_s, [])

    def until(self, end_s: float) -> None:
        while self.now_s < end_s:
            iteration = self.engine.step()
            self.now_s += iteration.duration_s
            for sequence in iteration.generated:
                self._open[sequence].times_s.append(self.now_s)
            for sequence in [one for one in iteration.generated if one.finished]:
                done = self._open.pop(sequence)
                chunks_ms = [(at_s - done.sent_s) * 1000 for at_s in done.times_s]
                self.rows.append(ok(f"r{len(self.rows)}", done.sent_s, chunks_ms, user=done.user))
                self.send(done.user)


def virtual_run(
    folder: Path,
    settings: EngineSettings,
    loads: Listed[int],
    step_time_s: float = 60.0,
    warmup_s: float = 10.0,
    prompt_tokens: int = 64,
    output_tokens: tuple[int, int] = (16, 48),
    **info: Any,
) -> Path:
    """A run folder; as many users as `loads` say, step after step. Requests that are open at the end are left to finish."""
    loop = _Loop(settings, prompt_tokens, output_tokens)
    steps: list[StepRecord] = []
    for index, users in enumerate(loads):
        begin_s = loop.now_s
        for number in range(loop.users, users):
            loop.send(f"u{number}")
        loop.users = max(loop.users, users)
        loop.until(begin_s + step_time_s)
        steps.append(step(index + 1, users, begin_s, begin_s + step_time_s))
    loop.until(loop.now_s + step_time_s)  # so that what was sent in the last window is seen to its end
    scenario = {"name": "stepload", "steps": list(loads), "step_time_s": step_time_s, "warmup_s": warmup_s}
    ended_at = T0 + loop.now_s
    return write_run(folder, loop.rows, steps, scenario=scenario, ended_at=ended_at, **info)
