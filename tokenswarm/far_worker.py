"""A worker that may be on another machine than its master: where it records, how far its clock is, what becomes of its files.

Nothing of this is done while the load lasts, but for a few messages at its beginning.
"""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent

from tokenswarm import clock_offset, pieces
from tokenswarm.clock_offset import SAME_CLOCK, ClockOffset, Rounds
from tokenswarm.handover import Handover, HandoverError
from tokenswarm.plan import Plan, host_name
from tokenswarm.runfolder import RunExists, RunFolder, RunFolderError

STEM_LENGTH = 80  # of the run's name in the name of a worker's own folder, whose length is limited


def place(plan: Plan, worker: str, results: Path) -> RunFolder:
    """The run's own folder where this machine sees it, else a new one in `results`. Raises RunFolderError."""
    try:
        folder = RunFolder.attach(plan.run_path)
        if folder.read_run().get("started_at") == plan.started_at:  # a run of that name may be here from another day
            return folder
    except RunFolderError:
        pass
    stem = f"{plan.run_id[:STEM_LENGTH]}-{worker}"
    for number in itertools.count(1):
        try:
            return RunFolder.create(results, stem if number == 1 else f"{stem}-{number}")
        except RunExists:
            continue
    raise AssertionError("numbers do not end")


class FarWorker:
    """One per worker process. `origin`: as the plan's where it was forked from its master."""

    def __init__(self, runner: Any, results: Path, origin: str) -> None:
        self.results = results  # before the master's options replace this machine's
        self.clock: ClockOffset | None = None
        self.kept_at: str | None = None  # where the rows are while the master does not have them
        self.why_kept: str | None = None
        self._runs_folder = ""  # on the master's machine
        self.is_forked: bool | None = None  # from its master, so there is one clock; known once there is a plan
        self._origin = origin
        self._rounds = Rounds(lambda asked: runner.send_message(clock_offset.MESSAGE, asked))
        self._handover = Handover(lambda piece: runner.send_message(pieces.MESSAGE, piece))
        self._ending: gevent.Greenlet | None = None
        runner.register_message(clock_offset.MESSAGE, lambda environment, msg: self._rounds.answered(msg.data))
        runner.register_message(pieces.MESSAGE, lambda environment, msg: self._handover.answered(msg.data))

    def place(self, plan: Plan, worker: str) -> RunFolder:
        """Where this worker records in the run of `plan`. Raises RunFolderError."""
        self.is_forked = plan.origin == self._origin
        self.clock = SAME_CLOCK if self.is_forked else None
        folder = place(plan, worker, self.results)
        self._runs_folder = plan.run_path
        self.kept_at = self.why_kept = None
        if folder.path != Path(plan.run_path):
            path = folder.path.resolve()
            self.kept_at = f"{host_name()}:{path}"
            print(
                f"The run's folder is not on this machine: rows are kept in {path} until the load has ended.",
                flush=True,
            )
        return folder

    def say(self, error: Exception) -> str:
        """What the master's user is told of an error here."""
        return str(error) if self.is_forked else f"On {host_name()}: {error}"

    def begin(self, measured: Callable[[], None]) -> None:
        """Compare the clocks while the first users start; `measured` is called when that is done."""
        self._ending = None
        if not self.is_forked:
            gevent.spawn(self._begin, measured)

    def _begin(self, measured: Callable[[], None]) -> None:
        found = self._rounds.measure()
        if found is not None and self._ending is None:
            self.clock = found
            measured()

    def end(self, folder: RunFolder, worker: str, run_id: str, told: Callable[[], None]) -> None:
        """The files are closed. `told` is called when the master has all that it will get; returns at once.

        In a greenlet of its own: whoever ends the load may be the one who reads the master's answers.
        """
        if self.is_forked and self.kept_at is None:
            told()
        else:
            self._ending = gevent.spawn(self._end, folder, worker, run_id, told)

    def _end(self, folder: RunFolder, worker: str, run_id: str, told: Callable[[], None]) -> None:
        if not self.is_forked:
            self.clock = clock_offset.over_run(self.clock, self._rounds.measure())
        if self.kept_at is not None:
            try:
                self._handover.hand_over(folder, worker, run_id)
                self.kept_at = None
            except HandoverError as error:
                self.why_kept = str(error)
                print(kept_words(worker, folder.path.resolve(), self._runs_folder, error), file=sys.stderr, flush=True)
        told()

    def wait(self) -> None:
        """Until what `end` began is done."""
        if self._ending is not None:
            self._ending.join()
            self._ending = None


def kept_words(worker: str, path: Path, runs_folder: str, error: HandoverError) -> str:
    return (
        f"The rows of worker {worker} could not be handed to the master. {error} They are kept in {path}: copy its files "
        f"into {runs_folder} on the master's machine, and there run: python -m analysis report {runs_folder}"
    )
