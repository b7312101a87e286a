"""How TokenSwarm hangs on Locust: `register(events)`, one visible call in a locustfile, and nothing at import.

The master (or the only process) prepares and owns the run; each process with users has a session. What the master found
out reaches the workers inside the options that come with Locust's first spawn message.
"""

import logging
import signal
import sys
from typing import Any

import gevent

from tokenswarm.metrics import derive
from tokenswarm.options import add_arguments, resolve
from tokenswarm.plan import ATTRIBUTE, Plan, prepare
from tokenswarm.record import Outcome, RequestRecord
from tokenswarm.rowfile import RecordingError
from tokenswarm.running import Run
from tokenswarm.runfolder import RunFolderError, RunState
from tokenswarm.session import Session
from tokenswarm.steps import StepShape
from tokenswarm.usage_error import UsageError

WRONG_USE, INTERRUPTED, NOT_RECORDED = 2, 3, 4  # exit codes beside 0, measured
REPORT = "tokenswarm"  # our part of a worker's report
FAILURE = "tokenswarm_failure"  # a worker's message: its rows cannot be written
REGISTERED = "_tokenswarm_registered"

log = logging.getLogger(__name__)


class RequestFailed(Exception):
    """What Locust's statistics show for a request that was not ok: its error class, never a server's free text."""


def register(events: Any) -> None:
    """Hang TokenSwarm on Locust's `events`. Calling it again, from a second locustfile, changes nothing."""
    if getattr(events, REGISTERED, False):
        return
    setattr(events, REGISTERED, True)
    events.init_command_line_parser.add_listener(add_arguments)
    events.init.add_listener(on_init)
    events.test_start.add_listener(on_test_start)
    events.test_stop.add_listener(on_test_stop)
    events.quitting.add_listener(on_quitting)


def is_worker(environment: Any) -> bool:
    return bool(environment.parsed_options.worker)


def is_master(environment: Any) -> bool:
    return bool(environment.parsed_options.master)


def on_init(environment: Any, runner: Any, web_ui: Any, **_: Any) -> None:
    environment.tokenswarm = environment.tokenswarm_run = environment.tokenswarm_prepared = None
    gevent.signal_handler(signal.SIGINT, interrupted, environment)
    if is_worker(environment):
        environment.events.report_to_master.add_listener(
            lambda client_id, data: (
                data.update({REPORT: environment.tokenswarm.snapshot()}) if environment.tokenswarm is not None else None
            )
        )
        return
    if is_master(environment):
        environment.events.worker_report.add_listener(lambda client_id, data: merge_report(environment, data))
        runner.register_message(FAILURE, lambda environment, msg: give_up(environment, str(msg.data)))
    if web_ui is None:
        # before any worker is told to start: a wrong target ends here, with nothing half-written
        try:
            environment.tokenswarm_prepared = prepare(environment.parsed_options, environment.host)
        except (UsageError, RunFolderError) as error:
            print(error, file=sys.stderr, flush=True)
            sys.exit(WRONG_USE)
        for note in environment.tokenswarm_prepared.findings.notes:
            print(f"note: {note}", file=sys.stderr, flush=True)


def interrupted(environment: Any) -> None:
    """Ctrl-C, as an event of the loop: a KeyboardInterrupt could strike between a read and its booking."""
    if getattr(environment, "tokenswarm_interrupted", False):
        return
    environment.tokenswarm_interrupted = True
    environment.runner.quit()
    if environment.web_ui is not None:
        environment.web_ui.stop()


def on_test_start(environment: Any, **_: Any) -> None:
    options = environment.parsed_options
    if is_worker(environment):
        index = environment.runner.worker_index
        open_session(environment, Plan.from_dict(getattr(options, ATTRIBUTE)), f"w{index}", index)
        return
    try:
        prepared = environment.tokenswarm_prepared or prepare(options, environment.host)
        environment.tokenswarm_prepared = None  # a second run of the web UI may be of another target
        shape = environment.shape_class
        scenario = type(shape).__name__ if shape is not None else "by hand"
        run = environment.tokenswarm_run = Run(prepared, options, environment.host, scenario)
    except (UsageError, RunFolderError, RecordingError) as error:
        print(error, file=sys.stderr, flush=True)
        environment.process_exit_code = WRONG_USE
        gevent.spawn(environment.runner.quit if environment.web_ui is None else environment.runner.stop)
        return
    setattr(options, ATTRIBUTE, run.plan.as_dict())
    if not is_master(environment):
        open_session(environment, run.plan, "w0", 0)
    run.show_progress(
        lambda: shape.staircase if isinstance(shape, StepShape) else None, lambda: environment.runner.user_count
    )


def open_session(environment: Any, plan: Plan, worker: str, index: int) -> None:
    options = environment.parsed_options
    environment.tokenswarm = Session(
        plan,
        resolve(options),
        plan.settings(options, environment.host),
        worker=worker,
        worker_index=index,
        users=lambda: environment.runner.user_count,
        on_recorded=lambda record: tell_locust(environment, record),
        on_failure=lambda error: recording_failed(environment, error),
    )
    if not is_worker(environment):
        gevent.spawn(merge_own, environment, environment.tokenswarm)


def merge_own(environment: Any, session: Session) -> None:
    """In a single process the session is its own worker."""
    while environment.tokenswarm is session:
        gevent.sleep(1.0)
        environment.tokenswarm_run.live.merge(session.snapshot())


def merge_report(environment: Any, data: dict[str, Any]) -> None:
    report = data.pop(REPORT, None)
    if report is not None and environment.tokenswarm_run is not None:
        environment.tokenswarm_run.live.merge(report)


def tell_locust(environment: Any, record: RequestRecord) -> None:
    """One row per kind of request in Locust's own tables, E2E in ms, real failures with their class."""
    if record.outcome is Outcome.CANCELLED:
        return
    e2e_s = derive(record)["e2e"]
    failed = None if record.outcome is Outcome.OK else RequestFailed(str(record.error_class))
    environment.events.request.fire(
        request_type="chat",
        name=record.task,
        response_time=e2e_s * 1e3 if e2e_s is not None else (record.ended_us or 0) / 1e3,
        response_length=0,
        exception=failed,
        context={},
    )


def recording_failed(environment: Any, error: RecordingError) -> None:
    """Rows cannot be written: a load that leaves no evidence is stopped."""
    if is_worker(environment):
        environment.runner.send_message(FAILURE, str(error))
    else:
        give_up(environment, str(error))


def give_up(environment: Any, words: str) -> None:
    run = environment.tokenswarm_run
    if run is None or run.failure is not None:
        return
    run.failure = words
    print(words, file=sys.stderr, flush=True)
    gevent.spawn(environment.runner.quit if environment.web_ui is None else environment.runner.stop)


def on_test_stop(environment: Any, **_: Any) -> None:
    session, environment.tokenswarm = environment.tokenswarm, None
    if session is not None:
        session.close()
    run, environment.tokenswarm_run = environment.tokenswarm_run, None
    if run is not None:
        shape = environment.shape_class
        environment.tokenswarm_run = run  # the last step is still written to it
        complete = shape.finish() if isinstance(shape, StepShape) else True
        environment.tokenswarm_run = None
        run.finish(complete, clients={})
        environment.process_exit_code = exit_code(run.state)


def exit_code(state: RunState) -> int:
    """0: measured, whatever the server did."""
    return {RunState.COMPLETE: 0, RunState.INTERRUPTED: INTERRUPTED, RunState.FAILED: NOT_RECORDED}[state]


def on_quitting(environment: Any, **_: Any) -> None:
    """A signal may end Locust while users run: stop them first, so that their rows are written."""
    if environment.tokenswarm is not None or environment.tokenswarm_run is not None:
        environment.runner.stop()
