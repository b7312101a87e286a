"""What the users of one process share while a run lasts: client, workload, rows, health, live figures."""

import gc
from collections.abc import Callable
from typing import Any

from tokenswarm.client import ChatClient, ChatSettings
from tokenswarm.digest import Reading
from tokenswarm.live import Live
from tokenswarm.live_sketch import warm_up
from tokenswarm.options import RunOptions
from tokenswarm.plan import Plan
from tokenswarm.pulse import Pulse
from tokenswarm.record import HealthRecord, RequestRecord
from tokenswarm.recorder import Recorder
from tokenswarm.rowfile import RecordingError
from tokenswarm.runfolder import RunFolder
from tokenswarm.workload import Workload

GC_THRESHOLDS = (50_000, 20, 1000)  # collections cost milliseconds in which nothing is read: rare ones, of little


MISTAKE = (
    "TokenSwarm made a mistake while reading answers ({error}): the run is stopped, rows so far are kept. "
    "Please report it with what the server sent (tokenswarm.probe --json shows it)."
)


class WatchedRecorder(Recorder):
    """Tells the live figures of this process's state too."""

    live: Live | None = None

    def write_health(self, record: HealthRecord) -> None:
        super().write_health(record)
        if self.live is not None:
            self.live.add_health(record)


class Session:
    """Opened at a run's start, in the process and after the fork; closed at its end."""

    def __init__(
        self,
        plan: Plan,
        options: RunOptions,
        settings: ChatSettings,
        folder: RunFolder,
        *,
        worker: str,
        worker_index: int,
        users: Callable[[], int],
        on_recorded: Callable[[RequestRecord], None],
        on_failure: Callable[[RecordingError], None],
    ) -> None:
        self.worker = worker
        self.run_id = plan.run_id
        self.folder = folder
        self.save_outputs = options.save_outputs
        self.max_tokens = options.max_tokens
        warm_up()
        self._on_recorded = on_recorded
        self.client = ChatClient(
            settings,
            worker=worker,
            on_record=self._record,
            on_death=lambda error: on_failure(RecordingError(MISTAKE.format(error=repr(error)))),
            id_prefix=f"{plan.run_id}-{worker}",
        )
        self.live = Live(self.client.collector.read_if_due)
        self.recorder = WatchedRecorder(
            folder,
            worker,
            save_outputs=options.save_outputs,
            secrets=self.client.secrets,
            on_failure=on_failure,
        )
        self.recorder.live = self.live
        self.workload = Workload(
            seed=options.seed,
            run_id=plan.run_id,
            worker_index=worker_index,
            prompt_tokens=options.prompt_tokens,
            calibration=plan.calibration,
            chinese_share=options.chinese_share,
        )
        self.client.prepare(options.max_tokens)
        self.pulse = Pulse(self.client, self.recorder, users)
        gc.collect()
        gc.freeze()
        self._gc_before = gc.get_threshold()
        gc.set_threshold(*GC_THRESHOLDS)

    def _record(self, reading: Reading) -> None:
        assert reading.record is not None
        self.recorder.write(reading)
        self.live.add(reading.record)
        self._on_recorded(reading.record)

    def snapshot(self) -> dict[str, Any]:
        """Live figures since the last snapshot, for the master or for this process's own progress line."""
        return self.live.snapshot(self.client.digest.open)

    @property
    def broken(self) -> Exception | None:
        """What has ended the reading of answers: a mistake of ours."""
        try:
            self.client.digest.check()
        except Exception as error:
            return error
        return None

    @property
    def lost_rows(self) -> int:
        """Requests that have ended and have no row."""
        return self.recorder.lost_rows

    def close(self, limit_s: float = 60.0) -> int:
        """Record what has ended and close the files. How many requests ended, but could not be read in time.

        Raises what the reading of answers died of, if it did: a mistake of ours.
        """
        gc.set_threshold(*self._gc_before)
        gc.unfreeze()
        try:
            if not self.client.digest.drain(limit_s):
                return self.client.digest.backlog
            return 0
        finally:
            try:
                self.pulse.close()
                self.client.close(0.0)
            finally:
                self.recorder.close()
