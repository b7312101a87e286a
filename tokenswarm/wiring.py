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

from gevent.lock import BoundedSemaphore

from tokenswarm import clients, clock_offset, pieces, prometheus, stopping, web
from tokenswarm.by_hand import StepsByHand
from tokenswarm.clients import Clients
from tokenswarm.early_imports import refuse_early_ssl
from tokenswarm.far_worker import FarWorker
from tokenswarm.live_window import Window
from tokenswarm.options import add_arguments, add_process_arguments
from tokenswarm.plan import ATTRIBUTE, Plan, prepare
from tokenswarm.roles import is_master, is_worker
from tokenswarm.rowfile import RecordingError
from tokenswarm.run_owner import (
    finish,
    give_up,
    lost_workers,
    merge_report,
    scenario_name,
    settled_by_hand,
    stairs,
    stop_load,
    take_piece,
    tell_time,
)
from tokenswarm.runfolder import RunFolderError
from tokenswarm.running import Run, report_of
from tokenswarm.session_holder import (
    FAILURE,
    LAST_REPORT,
    ahead_s,
    close_session,
    close_worker,
    open_session,
    open_window,
    recording_failed,
)
from tokenswarm.steps import StepShape
from tokenswarm.stopping import NOT_RECORDED, WRONG_USE
from tokenswarm.usage_error import UsageError

REPORT = "tokenswarm"  # our part of a worker's report
WINDOW = "tokenswarm_window"  # the master's: the window of a step
REGISTERED = "_tokenswarm_registered"  # of Locust's events: the process in which that was done
ORIGIN = "_tokenswarm_origin"  # of Locust's events: the same in all processes that are forked from that one, and nowhere else


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


def tell_window(environment: Any, window: Window) -> None:
    if is_master(environment):
        environment.runner.send_message(WINDOW, window.as_dict())
    else:
        open_window(environment, window)


def on_user_error(user_instance: Any, exception: Exception, **_: Any) -> None:
    """A task failed. If that is because answers can no longer be read, a load that goes on would measure nothing."""
    environment = user_instance.environment
    session = environment.tokenswarm
    if session is not None and session.broken is not None:
        recording_failed(environment, session.broken)


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
