"""What the master, or the only process, does about its run: reports, workers, pieces of files, the end."""

import sys
import time
from typing import Any

import gevent

from tokenswarm import clock_offset, incoming, pieces, stopping
from tokenswarm.roles import is_master
from tokenswarm.run_info import RunState
from tokenswarm.running import Run
from tokenswarm.steps import StepShape
from tokenswarm.stopping import INTERRUPTED, NOT_RECORDED


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


def tell_time(environment: Any, msg: Any) -> None:
    environment.runner.send_message(clock_offset.MESSAGE, clock_offset.answer(msg.data), msg.node_id)


def take_piece(environment: Any, msg: Any) -> None:
    """A worker that does not see the run's folder hands a piece of a file over."""
    run, books = environment.tokenswarm_run, environment.tokenswarm_clients
    books.heard(msg.node_id)
    answer = incoming.answer(run and run.incoming, books.worker_of(msg.node_id), msg.data)
    environment.runner.send_message(pieces.MESSAGE, answer, msg.node_id)


def merge_report(environment: Any, report: dict[str, Any] | None) -> None:
    if report is not None and environment.tokenswarm_run is not None:
        environment.tokenswarm_run.merge(report)


def lost_workers(environment: Any) -> list[str]:
    return environment.tokenswarm_clients.lost(environment.runner) if is_master(environment) else []


def give_up(environment: Any, words: str) -> None:
    if environment.tokenswarm_run is not None:
        environment.tokenswarm_run.fail(words)


def stop_load(environment: Any) -> None:
    if environment.web_ui is None:
        stopping.leave(environment, environment.process_exit_code or NOT_RECORDED)
    else:
        gevent.spawn(environment.runner.stop)


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
