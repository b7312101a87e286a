"""The run as the master (or the only process) sees it: its folder, its steps, its progress line, its end."""

import dataclasses
import os
import shutil
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import gevent

from tokenswarm import plan as planning
from tokenswarm.by_hand import StepsByHand
from tokenswarm.client import secrets_of
from tokenswarm.clients import LOST, client_info
from tokenswarm.clock_offset import SAME_CLOCK
from tokenswarm.incoming import Incoming
from tokenswarm.live import LiveRun
from tokenswarm.live_history import History
from tokenswarm.live_timeline import row as timeline_row
from tokenswarm.live_window import Window
from tokenswarm.masking import masked
from tokenswarm.options import RunOptions, option_names
from tokenswarm.plan import Plan, Prepared
from tokenswarm.progress import FOLLOWED, Phase, Progress, line
from tokenswarm.quality import QualityAnswer, to_line
from tokenswarm.record import StepRecord
from tokenswarm.recorder import Recorder
from tokenswarm.rowfile import RecordingError, RowFile
from tokenswarm.run_info import RunInfo, RunState, run_info
from tokenswarm.runfolder import QUALITY, RunFolder, RunFolderError
from tokenswarm.servers import Server
from tokenswarm.session import Session
from tokenswarm.staircase import Staircase

Stairs = Staircase | StepsByHand  # what is climbed: its present and last step, and how long it will be held

PROGRESS_EVERY_S = 5.0
LOOK_EVERY_S = 0.25  # at the stairs: a window is told to the workers that soon after its users are up
HISTORY_EVERY_S = 1.0
BY_HAND = "by hand"  # stands for a scenario where users were started without one
PREFLIGHT = "preflight"  # the worker of the requests before the load
SECRET_OPTIONS = ("header", "api_key_command")  # their texts may hold one
CONDITIONS = ("model", "precision", "engine", "engine_version", "launch_arguments", "gpu", "gpu_count", "gpu_memory")


class Run:
    """Made when the load starts: nothing is written before. `finish` is to be called once."""

    def __init__(
        self, prepared: Prepared, given: Namespace, target: str, scenario: str | None, on_failure: Callable[[], None]
    ) -> None:
        self.options = prepared.options
        self.live = LiveRun()
        self.history = History()
        self.steps: dict[int, StepRecord] = {}  # all so far, the present one included
        self.progress: Progress | None = None
        self.lost: dict[str, int] = {}  # worker → the step in which it was missed first
        self.server: Server | None = None
        self.state = RunState.RUNNING
        self.failure: str | None = None  # why the run is no good: rows could not be written, say
        self.draining = False
        self.in_flight: dict[str, int] = {}  # by process with users
        self.lost_rows: dict[str, int] = {}
        self._on_failure = on_failure
        self.folder = RunFolder.create(self.options.results, self.options.run_name)
        self.incoming = Incoming(self.folder)
        started_at = time.time()
        settings = prepared.findings.settings
        self.plan = Plan(
            run_id=self.folder.run_id,
            run_path=str(self.folder.path.resolve()),
            started_at=started_at,
            model=settings.model,
            max_tokens_field=settings.max_tokens_field,
            include_usage=settings.include_usage,
            has_key=settings.api_key is not None,
            calibration=prepared.calibration,
        )
        self._secrets = secrets_of(settings)
        self._info = RunInfo(
            run_id=self.folder.run_id,
            started_at=started_at,
            state=self.state,
            scenario=scenario or BY_HAND,
            steps=self.options.steps if scenario else (),
            step_time_s=self.options.step_time_s if scenario else 0.0,
            warmup_s=self.options.warmup_s if scenario else 0.0,
            slos=self.options.slos,
            target=target,
            model=settings.model,
            conditions=conditions(prepared),
            options=shown_options(given, self.options),
            seed=self.options.seed,
            versions=planning.versions(),
            host=planning.host_name(),
            cores=os.cpu_count(),
        )
        self._greenlets: list[gevent.Greenlet] = []
        self._tell_window: Callable[[Window], None] = lambda window: None
        self._begin(prepared)
        self.server = Server(settings, self.folder.path)

    def _begin(self, prepared: Prepared) -> None:
        """The first files; where the disk takes none of them, no folder is left behind."""
        try:
            self._save()
            self._record_preflight(prepared)
            self._record_quality(prepared.quality)
        except (RecordingError, RunFolderError):
            shutil.rmtree(self.folder.path, ignore_errors=True)
            raise

    def _save(self) -> None:
        self.folder.write_run(run_info(self._info, self._secrets))

    def _record_preflight(self, prepared: Prepared) -> None:
        """What the preflight sent was sent too: it stands in the same folder, before the first step."""
        recorder = Recorder(self.folder, PREFLIGHT, save_outputs=self.options.save_outputs, secrets=self._secrets)
        for reading in prepared.readings:
            recorder.write(reading)
        recorder.close()
        self._preflight_rows = recorder.rows
        if recorder.failed is not None:
            raise recorder.failed

    def _record_quality(self, answers: tuple[QualityAnswer, ...]) -> None:
        if not answers:
            return
        file = RowFile(self.folder.path / QUALITY, "")
        for answer in answers:
            file.append(masked(to_line(answer), self._secrets))
        file.close()

    def fail(self, words: str) -> None:
        """Something can no longer be recorded. Said once; the load is to be stopped."""
        if self.failure is None:
            self.failure = words
            print(words, file=sys.stderr, flush=True)
            self._on_failure()

    def step_ended(self, record: StepRecord) -> None:
        try:
            self.folder.append_step(record)
        except RecordingError as error:
            self.fail(str(error))
        self.steps[record.step] = record
        held = self.live.steps.get(record.step)
        if held is not None and record.ended_at is not None:
            end_s = record.ended_at if held.window.end_s is None else min(held.window.end_s, record.ended_at)
            self._begin_window(dataclasses.replace(held.window, end_s=max(end_s, held.window.begin_s)))

    def watch(
        self,
        stairs: Callable[[], Stairs | None],
        users: Callable[[], int],
        lost: Callable[[], Sequence[str]],
        tell_window: Callable[[Window], None],
    ) -> None:
        """Until the run is finished: print a line every few seconds, keep the timeline, and tell the steps' windows.

        `lost`: workers that are gone; `tell_window`: to all processes with users.
        """
        self._tell_window = tell_window
        self._greenlets = [gevent.spawn(self._show), gevent.spawn(self._look, stairs, users, lost)]

    def _show(self) -> None:
        while True:
            gevent.sleep(PROGRESS_EVERY_S)
            if self.progress is not None:
                print(line(self.progress, sys.stdout.encoding), flush=True)

    def _look(
        self, stairs: Callable[[], Stairs | None], users: Callable[[], int], lost: Callable[[], Sequence[str]]
    ) -> None:
        due_s = 0.0
        while True:
            present = stairs()
            if present is not None:
                self._note_step(present)
                if time.monotonic() >= due_s:
                    due_s = time.monotonic() + HISTORY_EVERY_S
                    self._note_lost(lost())
                    self.progress = self._progress(present, users())
                    self.history.add(timeline_row(self, users()))
            gevent.sleep(LOOK_EVERY_S)

    def _note_step(self, stairs: Stairs) -> None:
        step = stairs.current
        if step is None:
            return
        self.steps[step.step] = step
        if step.settled_at is None or step.step in self.live.steps:
            return
        hold_s = stairs.hold_s if isinstance(stairs, Staircase) else None  # by hand, nobody knows
        end_s = None if hold_s is None else step.settled_at + hold_s
        self._begin_window(Window(step.step, step.settled_at + self.options.warmup_s, end_s))

    def _begin_window(self, window: Window) -> None:
        """It begins, or its end is known now."""
        self.live.tell(window)
        self._tell_window(window)

    def _note_lost(self, workers: Sequence[str]) -> None:
        for worker in workers:
            if worker not in self.lost:
                self.lost[worker] = max(self.steps, default=1)
                self.live.lose(worker)
                self.in_flight.pop(worker, None)

    @property
    def is_over(self) -> bool:
        return self.state is not RunState.RUNNING

    def info(self) -> dict[str, Any]:
        """As run.json says it: no secrets."""
        return run_info(self._info, self._secrets)

    def reset(self) -> None:
        """Watch from now on: what was counted and drawn so far goes, what was measured stays."""
        self.live.reset()
        self.history.reset()

    def _progress(self, stairs: Stairs, users: int) -> Progress | None:
        step = stairs.current or stairs.last
        if step is None:
            return None
        left_s = stairs.left_s(time.time())
        phase = Phase.SPAWNING if step.settled_at is None else Phase.STEADY
        if left_s is not None and stairs.hold_s - left_s < self.options.warmup_s:
            phase, left_s = Phase.WARMUP, self.options.warmup_s - (stairs.hold_s - left_s)
        if self.draining or stairs.current is None:
            phase = Phase.DRAINING
        recent = self.live.recent()
        return Progress(
            phase=phase,
            step=step.step,
            steps=len(stairs.steps),
            users=users,
            target_users=step.target_users,
            left_s=left_s,
            in_flight=sum(self.in_flight.values()) if phase is Phase.DRAINING else None,
            tokens_per_s=recent.tokens_per_s,
            p50_s=recent.quantile_s(FOLLOWED.name, 0.5),
            p95_s=recent.quantile_s(FOLLOWED.name, 0.95),
            ok=self.live.total.ok,
            errors=self.live.total.errors,
            cancelled=self.live.total.cancelled,
            lost_rows=sum(self.lost_rows.values()),
        )

    def merge(self, report: dict[str, Any]) -> None:
        """Take in what a process with users reports (`report_of`)."""
        source = report["worker"]
        self.live.merge(source, report["live"])
        self.in_flight[source] = report["in_flight"]
        self.lost_rows[source] = report["lost_rows"]

    def finish(self, complete: bool, clients: dict[str, dict[str, Any]], by_hand: StepsByHand | None) -> None:
        """All files of workers are closed: close ours, and say in `run.json` how the run ended. A full disk raises nothing."""
        for greenlet in self._greenlets:
            greenlet.kill(block=False)
        if self.server is not None:
            self.server.close()
        self.incoming.close()
        try:
            self.folder.close()
            self.folder.mend()
        except (RecordingError, OSError) as error:
            self.fail(str(error))
        if self.failure is not None:
            self.state = RunState.FAILED
        else:
            self.state = RunState.COMPLETE if complete else RunState.INTERRUPTED
        # the preflight ran in this process, before the load
        own = client_info(clock=SAME_CLOCK, rows=self._preflight_rows)
        clients = {PREFLIGHT: {**own, LOST: False}, **clients}
        self._info = dataclasses.replace(self._info, ended_at=time.time(), state=self.state, clients=clients)
        if by_hand is not None:
            hold_s = by_hand.hold_s
            self._info = dataclasses.replace(
                self._info,
                steps=by_hand.steps,
                step_time_s=hold_s,
                warmup_s=self.options.warmup_s if self.options.warmup_s < hold_s else 0.0,
            )
        try:
            self._save()
        except RecordingError as error:
            self.fail(str(error))
            self.state = RunState.FAILED


def report_of(session: Session, ahead_s: float = 0.0) -> dict[str, Any]:
    """What a process with users tells the master once a report interval, as plain data. `ahead_s`: its clock's offset."""
    live = session.snapshot()
    return {
        "worker": session.worker,
        "live": {**live, "at": live["at"] - ahead_s},
        "in_flight": len(session.client.pool.carried),
        "lost_rows": session.lost_rows,
    }


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


def shown_options(given: Namespace, resolved: RunOptions) -> dict[str, Any]:
    """The options as resolved, those of ours: no environment, no header values."""
    numbers = ("prompt_tokens", "max_tokens", "seed", "chinese_share")
    shown = {
        name: value for name, value in vars(given).items() if name in option_names() and name not in SECRET_OPTIONS
    }
    return shown | {name: getattr(resolved, name) for name in numbers}
