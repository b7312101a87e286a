"""What a process with users does about its session: it opens and closes it, and tells the master."""

import dataclasses
from typing import Any

import gevent

from tokenswarm import clients
from tokenswarm.clients import client_info
from tokenswarm.clock_offset import SAME_CLOCK
from tokenswarm.live_window import Window
from tokenswarm.metrics import derive
from tokenswarm.options import resolve
from tokenswarm.plan import Plan
from tokenswarm.record import Outcome, RequestRecord
from tokenswarm.roles import is_worker
from tokenswarm.rowfile import RecordingError
from tokenswarm.run_owner import give_up, merge_report
from tokenswarm.runfolder import RunFolder, RunFolderError
from tokenswarm.running import report_of
from tokenswarm.session import Session
from tokenswarm.usage_error import UsageError

FAILURE = "tokenswarm_failure"  # a worker's message: its rows cannot be written
LAST_REPORT = "tokenswarm_last_report"  # a worker's message, when it has closed its session


class RequestFailed(Exception):
    """What Locust's statistics show for a request that was not ok: its error class, never a server's free text."""


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


def merge_own(environment: Any, session: Session) -> None:
    """In a single process the session is its own worker."""
    while True:
        gevent.sleep(1.0)
        if environment.tokenswarm is not session:
            return
        environment.tokenswarm_run.merge(report_of(session))


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


def recording_failed(environment: Any, error: Exception) -> None:
    """Rows cannot be written: a load that leaves no evidence is stopped."""
    if is_worker(environment):
        environment.runner.send_message(FAILURE, environment.tokenswarm_far.say(error))
    else:
        give_up(environment, str(error))


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
