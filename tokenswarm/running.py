"""The run as the master (or the only process) sees it: its folder, its steps, its progress line, its end."""

import dataclasses
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import gevent

from tokenswarm import plan as planning
from tokenswarm.live import Live
from tokenswarm.plan import Plan, Prepared
from tokenswarm.progress import FOLLOWED, Phase, Progress, line
from tokenswarm.record import StepRecord
from tokenswarm.recorder import Recorder
from tokenswarm.runfolder import RunFolder, RunInfo, RunState, run_info
from tokenswarm.staircase import Staircase

PROGRESS_EVERY_S = 5.0
CONDITIONS = ("model", "precision", "engine", "engine_version", "launch_arguments", "gpu", "gpu_count", "gpu_memory")


class Run:
    """Made when the load starts: nothing is written before. `finish` is to be called once."""

    def __init__(self, prepared: Prepared, given: Namespace, target: str, scenario: str) -> None:
        self.options = prepared.options
        self.live = Live()
        self.state = RunState.RUNNING
        self.failure: str | None = None  # why rows could not be written
        self.folder = RunFolder.create(self.options.results, self.options.run_name)
        settings = prepared.findings.settings
        self.plan = Plan(
            run_id=self.folder.run_id,
            run_path=str(self.folder.path.resolve()),
            model=settings.model,
            max_tokens_field=settings.max_tokens_field,
            include_usage=settings.include_usage,
            calibration=prepared.calibration,
        )
        self._secrets = [text for text in (settings.api_key, *settings.headers.values()) if text]
        self._info = RunInfo(
            run_id=self.folder.run_id,
            started_at=time.time(),
            state=self.state,
            scenario=scenario,
            steps=self.options.steps,
            step_time_s=self.options.step_time_s,
            warmup_s=self.options.warmup_s,
            target=target,
            model=settings.model,
            conditions=conditions(prepared),
            options=shown_options(given),
            seed=self.options.seed,
            versions=planning.versions(),
            host=planning.host_name(),
            cores=os.cpu_count(),
        )
        self._save()
        self._record_preflight(prepared)
        self._line: gevent.Greenlet | None = None

    def _save(self) -> None:
        self.folder.write_run(run_info(self._info, self._secrets))

    def _record_preflight(self, prepared: Prepared) -> None:
        """What the preflight sent was sent too: it stands in the same folder, before the first step."""
        recorder = Recorder(self.folder, "preflight", save_outputs=self.options.save_outputs, secrets=self._secrets)
        for reading in prepared.readings:
            recorder.write(reading)
        recorder.close()

    def step_ended(self, record: StepRecord) -> None:
        self.folder.append_step(record)
        self.live.begin_step()

    def show_progress(self, staircase: Callable[[], Staircase | None], users: Callable[[], int]) -> None:
        """Print a line every few seconds until the run is finished."""
        self._line = gevent.spawn(self._show, staircase, users)

    def _show(self, staircase: Callable[[], Staircase | None], users: Callable[[], int]) -> None:
        while True:
            gevent.sleep(PROGRESS_EVERY_S)
            stairs = staircase()
            if stairs is not None and stairs.current is not None:
                print(line(self._progress(stairs, users()), sys.stdout.encoding), flush=True)

    def _progress(self, stairs: Staircase, users: int) -> Progress:
        step = stairs.current
        assert step is not None
        left_s = stairs.left_s(time.time())
        phase = Phase.SPAWNING if left_s is None else Phase.STEADY
        if left_s is not None and stairs.hold_s - left_s < self.options.warmup_s:
            phase, left_s = Phase.WARMUP, self.options.warmup_s - (stairs.hold_s - left_s)
        recent = self.live.recent()
        return Progress(
            phase=phase,
            step=step.step,
            steps=len(stairs.steps),
            users=users,
            target_users=step.target_users,
            left_s=left_s,
            tokens_per_s=recent.tokens_per_s,
            p50_s=recent.quantile_s(FOLLOWED.name, 0.5),
            p95_s=recent.quantile_s(FOLLOWED.name, 0.95),
            ok=self.live.total.ok,
            errors=self.live.total.errors,
        )

    def finish(self, complete: bool, clients: dict[str, dict[str, Any]]) -> None:
        """Close the folder's files and say in `run.json` how the run ended."""
        if self._line is not None:
            self._line.kill(block=False)
        if self.failure is not None:
            self.state = RunState.FAILED
        else:
            self.state = RunState.COMPLETE if complete else RunState.INTERRUPTED
        self._info = dataclasses.replace(self._info, ended_at=time.time(), state=self.state, clients=clients)
        self._save()
        self.folder.close()


def conditions(prepared: Prepared) -> dict[str, Any]:
    """What makes runs comparable: as told by options, filled in from the server; None where nobody said."""
    options = prepared.options
    known: dict[str, Any] = dict.fromkeys(CONDITIONS)
    known |= {
        "model": prepared.findings.settings.model,
        "prompt_tokens": options.prompt_tokens,
        "max_tokens": options.max_tokens,
        "chinese_share": options.chinese_share,
        "sampling": dict(prepared.findings.settings.extra_body),
        "calibration": prepared.calibration.source,
    }
    return known | options.conditions


def shown_options(given: Namespace) -> dict[str, Any]:
    """The options as resolved, those of ours: no environment, no header values."""
    from tokenswarm.options import option_names

    return {name: value for name, value in vars(given).items() if name in option_names() and name != "header"}
