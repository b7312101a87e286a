"""How TokenSwarm hangs on Locust: `register(events)`, one visible call in a locustfile, and nothing at import.

The master (or the only process) prepares and owns the run; each process with users has a session. What the master found
out reaches the workers inside the options that come with Locust's first spawn message.
"""

import dataclasses
import os
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import gevent
from gevent.lock import BoundedSemaphore

from tokenswarm import clients, clock_offset, incoming, pieces, prometheus, stopping, web
from tokenswarm.by_hand import StepsByHand
from tokenswarm.clients import Clients, client_info
from tokenswarm.clock_offset import SAME_CLOCK
from tokenswarm.early_imports import refuse_early_ssl
from tokenswarm.far_worker import FarWorker
from tokenswarm.live_window import Window
from tokenswarm.metrics import derive
from tokenswarm.options import add_arguments, add_process_arguments, resolve
from tokenswarm.plan import ATTRIBUTE, Plan, prepare
from tokenswarm.record import Outcome, RequestRecord
from tokenswarm.rowfile import RecordingError
from tokenswarm.runfolder import RunFolder, RunFolderError, RunState
from tokenswarm.running import Run, report_of
from tokenswarm.session import Session
from tokenswarm.steps import StepShape
from tokenswarm.stopping import INTERRUPTED, NOT_RECORDED, WRONG_USE
from tokenswarm.usage_error import UsageError

REPORT = "tokenswarm"  # our part of a worker's report
FAILURE = "tokenswarm_failure"  # a worker's message: its rows cannot be written
LAST_REPORT = "tokenswarm_last_report"  # a worker's message, when it has closed its session
WINDOW = "tokenswarm_window"  # the master's: the window of a step
REGISTERED = "_tokenswarm_registered"  # of Locust's events: the process in which that was done
ORIGIN = "_tokenswarm_origin"  # of Locust's events: the same in all processes that are forked from that one, and nowhere else


class RequestFailed(Exception):
    """What Locust's statistics show for a request that was not ok: its error class, never a server's free text."""


def register(events: Any) -> None:
    """Hang TokenSwarm on Locust's `events`. Calling it again, from a second locustfile, changes nothing."""
    if hasattr(events, REGISTERED):
        return
    setattr(events, REGISTERED, os.getpid())
    setattr(events, ORIGIN, secrets.token_hex(8))
    events.init_command_line_parser.add_listener(on_parser)
    events.init.add_listener(on_init)
    events.test_start.add_listener(on_test_start)
    events.test_stopping.add_listener(on_test_stopping)
    events.test_stop.add_listener(on_test_stop)
    events.user_error.add_listener(on_user_error)


def on_parser(parser: Any, **_: Any) -> None:
    """Our options; and what cannot be understood is answered by a sentence, not by three screens of usage."""
    add_arguments(parser)
    add_process_arguments(parser)
    parser.error = lambda message: stopping.refuse(f"{message[:1].upper()}{message[1:]}. --help shows all options.")


def is_worker(environment: Any) -> bool:
    return bool(environment.parsed_options.worker)


def is_master(environment: Any) -> bool:
    return bool(environment.parsed_options.master)


def on_init(environment: Any, runner: Any, web_ui: Any, **_: Any) -> None:
    environment.tokenswarm = environment.tokenswarm_run = environment.tokenswarm_prepared = None
    environment.tokenswarm_by_hand = None
    environment.tokenswarm_shown = None  # the run that pages show: the present one, or the last
    environment.tokenswarm_far = None
    environment.tokenswarm_clients = Clients()
    environment.tokenswarm_closing = BoundedSemaphore()
    forked_from = getattr(environment.events, REGISTERED)
    stopping.listen(environment, forked_worker=os.getpid() != forked_from)
    if os.getpid() != forked_from:
        stopping.end_with_master(forked_from)
    environment.events.spawning_complete.add_listener(lambda user_count, **_: settled_by_hand(environment, user_count))
    if is_worker(environment):
        results = Path(environment.parsed_options.results)
        environment.tokenswarm_far = FarWorker(runner, results, getattr(environment.events, ORIGIN))
        environment.events.report_to_master.add_listener(
            lambda client_id, data: (
                data.update({REPORT: report_of(environment.tokenswarm, ahead_s(environment))})
                if environment.tokenswarm is not None
                else None
            )
        )
        runner.register_message(clients.CLOSE, lambda environment, msg: close_worker(environment))
        runner.register_message(WINDOW, lambda environment, msg: open_window(environment, Window(**msg.data)))
        return
    if is_master(environment):
        clients.bear_silence()
        environment.events.worker_report.add_listener(
            lambda data, **_: merge_report(environment, data.pop(REPORT, None))
        )
        runner.register_message(LAST_REPORT, lambda environment, msg: merge_report(environment, msg.data))
        runner.register_message(clock_offset.MESSAGE, lambda environment, msg: tell_time(environment, msg))
        runner.register_message(pieces.MESSAGE, lambda environment, msg: take_piece(environment, msg))
        runner.register_message(FAILURE, lambda environment, msg: give_up(environment, str(msg.data)))
        runner.register_message(
            clients.MESSAGE, lambda environment, msg: environment.tokenswarm_clients.told(msg.node_id, msg.data)
        )
    try:
        prometheus.serve(environment, environment.parsed_options.prometheus_port)
    except UsageError as error:
        environment.tokenswarm_stopping = True
        stopping.refuse(error)
    if web_ui is not None:
        web.add_pages(environment)
    if web_ui is None:
        # before any worker is told to start: a wrong target ends here, with nothing half-written
        try:
            refuse_early_ssl()
            environment.tokenswarm_prepared = prepare(environment.parsed_options, environment.host)
        except (UsageError, RunFolderError) as error:
            environment.tokenswarm_stopping = True
            stopping.refuse(error)
        for note in environment.tokenswarm_prepared.findings.notes:
            print(f"note: {note}", file=sys.stderr, flush=True)


def on_test_start(environment: Any, **_: Any) -> None:
    options = environment.parsed_options
    if is_worker(environment):
        plan = getattr(options, ATTRIBUTE, None)
        if plan is not None:  # else the master could not begin
            index = environment.runner.worker_index
            try:
                open_session(environment, Plan.from_dict(plan), f"w{index}", index)
            except UsageError as error:
                recording_failed(environment, error)
        return
    shape = environment.shape_class
    setattr(options, ATTRIBUTE, None)
    environment.tokenswarm_clients = Clients()
    try:
        prepared = environment.tokenswarm_prepared or prepare(options, environment.host)
        environment.tokenswarm_prepared = None  # a second run of the web UI may be of another target
        run = environment.tokenswarm_run = Run(
            prepared, options, environment.host, scenario_name(shape), lambda: stop_load(environment)
        )
    except (UsageError, RunFolderError, RecordingError) as error:
        print(error, file=sys.stderr, flush=True)
        environment.process_exit_code = NOT_RECORDED if isinstance(error, RecordingError) else WRONG_USE
        stop_load(environment)
        return
    environment.tokenswarm_shown = run
    if shape is None:
        environment.tokenswarm_by_hand = StepsByHand(time.time(), run.step_ended)
    plan = dataclasses.replace(run.plan, origin=getattr(environment.events, ORIGIN))
    setattr(options, ATTRIBUTE, plan.as_dict())
    if not is_master(environment):
        open_session(environment, run.plan, "w0", 0)
    run.watch(
        lambda: stairs(environment),
        lambda: environment.runner.user_count,
        lambda: lost_workers(environment),
        lambda window: tell_window(environment, window),
    )


def scenario_name(shape: Any) -> str | None:
    """None where users are started by hand."""
    return None if shape is None else getattr(shape, "name", type(shape).__name__.lower())


def stairs(environment: Any) -> Any:
    """What is climbed: the scenario's staircase, or the steps that somebody makes by hand."""
    shape = environment.shape_class
    return shape.staircase if isinstance(shape, StepShape) else environment.tokenswarm_by_hand


def settled_by_hand(environment: Any, users: int) -> None:
    if environment.tokenswarm_by_hand is not None:
        environment.tokenswarm_by_hand.settled(time.time(), users)


def open_session(environment: Any, plan: Plan, worker: str, index: int) -> None:
    options, far = environment.parsed_options, environment.tokenswarm_far
    try:
        session = environment.tokenswarm = Session(
            plan,
            resolve(options),
            plan.settings(options, environment.host),
            RunFolder.attach(plan.run_path) if far is None else far.place(plan, worker),
            worker=worker,
            worker_index=index,
            users=lambda: environment.runner.user_count,
            on_recorded=lambda record: tell_locust(environment, record),
            on_failure=lambda error: recording_failed(environment, error),
        )
    except (UsageError, RunFolderError, RecordingError) as error:
        recording_failed(environment, error)
        return
    tell_master(environment, worker, None)
    if far is None:
        gevent.spawn(merge_own, environment, session)
    else:
        far.begin(lambda: tell_master(environment, worker, None) if environment.tokenswarm is session else None)


def tell_master(environment: Any, worker: str, rows: int | None) -> None:
    """That this process records now, or (with `rows`) that its files are closed."""
    far = environment.tokenswarm_far
    if far is None:
        told = client_info(clock=SAME_CLOCK, rows=rows)
        environment.tokenswarm_clients.told(worker, {"worker": worker, **told})
        return
    told = client_info(clock=far.clock, rows=rows, kept_at=far.kept_at, why_kept=far.why_kept)
    environment.runner.send_message(clients.MESSAGE, {"worker": worker, **told})


def ahead_s(environment: Any) -> float:
    """By how much this process's clock is ahead of the master's, as far as is known."""
    far = environment.tokenswarm_far
    return far.clock.offset_s if far is not None and far.clock is not None else 0.0


def tell_time(environment: Any, msg: Any) -> None:
    environment.runner.send_message(clock_offset.MESSAGE, clock_offset.answer(msg.data), msg.node_id)


def take_piece(environment: Any, msg: Any) -> None:
    """A worker that does not see the run's folder hands a piece of a file over."""
    run, books = environment.tokenswarm_run, environment.tokenswarm_clients
    books.heard(msg.node_id)
    answer = incoming.answer(run and run.incoming, books.worker_of(msg.node_id), msg.data)
    environment.runner.send_message(pieces.MESSAGE, answer, msg.node_id)


def merge_own(environment: Any, session: Session) -> None:
    """In a single process the session is its own worker."""
    while True:
        gevent.sleep(1.0)
        if environment.tokenswarm is not session:
            return
        environment.tokenswarm_run.merge(report_of(session))


def merge_report(environment: Any, report: dict[str, Any] | None) -> None:
    if report is not None and environment.tokenswarm_run is not None:
        environment.tokenswarm_run.merge(report)


def lost_workers(environment: Any) -> list[str]:
    return environment.tokenswarm_clients.lost(environment.runner) if is_master(environment) else []


def tell_window(environment: Any, window: Window) -> None:
    if is_master(environment):
        environment.runner.send_message(WINDOW, window.as_dict())
    else:
        open_window(environment, window)


def open_window(environment: Any, window: Window) -> None:
    if environment.tokenswarm is not None:
        ahead = ahead_s(environment)  # told by the master's clock, needed by ours
        end_s = None if window.end_s is None else window.end_s + ahead
        window = dataclasses.replace(window, begin_s=window.begin_s + ahead, end_s=end_s)
        environment.tokenswarm.live.windows.tell(window)


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


def on_user_error(user_instance: Any, exception: Exception, **_: Any) -> None:
    """A task failed. If that is because answers can no longer be read, a load that goes on would measure nothing."""
    environment = user_instance.environment
    session = environment.tokenswarm
    if session is not None and session.broken is not None:
        recording_failed(environment, session.broken)


def recording_failed(environment: Any, error: Exception) -> None:
    """Rows cannot be written: a load that leaves no evidence is stopped."""
    if is_worker(environment):
        environment.runner.send_message(FAILURE, environment.tokenswarm_far.say(error))
    else:
        give_up(environment, str(error))


def give_up(environment: Any, words: str) -> None:
    if environment.tokenswarm_run is not None:
        environment.tokenswarm_run.fail(words)


def stop_load(environment: Any) -> None:
    if environment.web_ui is None:
        stopping.leave(environment, environment.process_exit_code or NOT_RECORDED)
    else:
        gevent.spawn(environment.runner.stop)


def on_test_stopping(environment: Any, **_: Any) -> None:
    """The end begins: a signal that comes now changes nothing any more, and the present step is over."""
    environment.tokenswarm_stopping = environment.web_ui is None
    if isinstance(environment.shape_class, StepShape) and environment.tokenswarm_run is not None:
        environment.shape_class.stop()
    if environment.tokenswarm_by_hand is not None:
        environment.tokenswarm_by_hand.stop(time.time())
    if environment.tokenswarm_run is not None:
        environment.tokenswarm_run.draining = True


def on_test_stop(environment: Any, **_: Any) -> None:
    with environment.tokenswarm_closing:
        session, environment.tokenswarm = environment.tokenswarm, None
        if session is not None:
            close_session(environment, session)
        run = environment.tokenswarm_run
        if run is not None:
            finish(environment, run)


def close_worker(environment: Any) -> None:
    environment.runner.stop()
    gevent.spawn(tell_nothing, environment)  # in a greenlet of its own: this one may be reading the master's answers


def tell_nothing(environment: Any) -> None:
    with environment.tokenswarm_closing:  # somebody else may have stopped it
        environment.tokenswarm_far.wait()
        environment.runner.send_message(clients.MESSAGE, clients.NOTHING)


def close_session(environment: Any, session: Session) -> None:
    try:
        unread = session.close()
        if unread:
            recording_failed(
                environment, RecordingError(f"{unread} answers could not be read in time: they have no row.")
            )
    except Exception as error:  # a mistake of ours in reading: the run is not good, but its files are whole
        recording_failed(environment, error)
    far, worker, rows = environment.tokenswarm_far, session.worker, session.recorder.rows
    if far is None:
        merge_report(environment, report_of(session))
        tell_master(environment, worker, rows)
        return
    environment.runner.send_message(LAST_REPORT, report_of(session, ahead_s(environment)))
    tell_master(environment, worker, None)
    far.end(session.folder, worker, session.run_id, lambda: tell_master(environment, worker, rows))


def finish(environment: Any, run: Run) -> None:
    if is_master(environment):
        environment.tokenswarm_clients.close(environment.runner)
    for words in environment.tokenswarm_clients.missing():
        print(
            f"{words} Copy its files into {run.folder.path}, then: python -m analysis report {run.folder.path}",
            file=sys.stderr,
            flush=True,
        )
    if environment.tokenswarm_clients.all_lost:
        run.fail("No worker was left to close its files (killed, or out of CPU?); the rows that they wrote are kept.")
    by_hand, environment.tokenswarm_by_hand = environment.tokenswarm_by_hand, None
    shape = environment.shape_class
    if isinstance(shape, StepShape):
        complete = shape.finish()
    else:  # by hand, Ctrl-C is how a load ends unless it was given a time
        complete = not (environment.tokenswarm_interrupted and environment.parsed_options.run_time)
    run.finish(complete, environment.tokenswarm_clients.as_dict(), by_hand)
    environment.tokenswarm_run = None
    environment.process_exit_code = exit_code(run.state)


def exit_code(state: RunState) -> int:
    """0: measured, whatever the server did."""
    return {RunState.COMPLETE: 0, RunState.INTERRUPTED: INTERRUPTED, RunState.FAILED: NOT_RECORDED}[state]
