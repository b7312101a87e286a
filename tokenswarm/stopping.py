"""How a load ends early: always through the main greenlet, at a place where it waits.

Locust's `quit` can be run by several greenlets at once, and the second kills what the first waits for. A KeyboardInterrupt
that is thrown into the main greenlet takes the one way that Locust has for it: quit, shut down, exit, in this order. As
an event of the loop it never strikes between a read and its booking, as one from a signal handler could.
"""

import os
import signal
import sys
from typing import Any

import gevent
from gevent.event import Event

WRONG_USE, INTERRUPTED, NOT_RECORDED = 2, 3, 4  # exit codes beside 0, measured
WORKER_GRACE_S = 10.0


def listen(environment: Any, *, forked_worker: bool) -> None:
    """Take SIGINT, and SIGTERM, which Locust takes only when a headless scenario is over."""
    environment.tokenswarm_interrupted = environment.tokenswarm_stopping = False
    environment.events.quitting.add_listener(on_quitting)
    if forked_worker:
        # a terminal's Ctrl-C reaches every process: the master tells its workers, in an order that loses nothing
        gevent.signal_handler(signal.SIGINT, lambda: gevent.spawn_later(grace_s(environment), interrupt, environment))
    else:
        gevent.signal_handler(signal.SIGINT, interrupt, environment)
    gevent.signal_handler(signal.SIGTERM, interrupt, environment)


def grace_s(environment: Any) -> float:
    """A worker that was forked by another one's `--worker --processes` has its master at another terminal."""
    far = environment.tokenswarm_far
    return 0.0 if far is not None and far.is_forked is False else WORKER_GRACE_S


def interrupt(environment: Any) -> None:
    """Ctrl-C. Again, or when the end has begun, it changes nothing."""
    if not environment.tokenswarm_stopping:
        environment.tokenswarm_interrupted = True
        leave(environment, INTERRUPTED)


def leave(environment: Any, code: int) -> None:
    """End this process's load. `code` counts where there is no run whose state would say it better."""
    if environment.tokenswarm_stopping:
        return
    environment.tokenswarm_stopping = True
    begun = environment.tokenswarm is not None or environment.tokenswarm_run is not None
    main = gevent.get_hub().parent
    # after a normal return of the quitting handlers Locust asks for the code; a SystemExit brings its own
    gevent.kill(main, KeyboardInterrupt() if begun else SystemExit(code))


def on_quitting(environment: Any, **_: Any) -> None:
    """Users are stopped before Locust goes: their rows are written. Called by the main greenlet, or by a SIGTERM."""
    if gevent.getcurrent() is not gevent.get_hub().parent:
        interrupt(environment)
        Event().wait()  # for ever: the rest of Locust's SIGTERM handler is what the main greenlet does now
    environment.tokenswarm_stopping = True
    with environment.tokenswarm_closing:  # another greenlet may be closing files just now
        begun = environment.tokenswarm is not None or environment.tokenswarm_run is not None
    if begun:
        environment.runner.stop()
    if environment.tokenswarm_far is not None:
        environment.tokenswarm_far.wait()


def refuse(words: object) -> None:
    """One sentence, and the end of a process that has not begun."""
    print(words, file=sys.stderr, flush=True)
    sys.exit(WRONG_USE)


def end_with_master(master_pid: int) -> None:
    """In a forked worker: a master that was killed takes it along."""
    from tokenswarm.local_server import die_with_parent

    die_with_parent()
    if os.getppid() != master_pid:
        sys.exit(INTERRUPTED)
