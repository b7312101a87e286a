"""A limit on how long a pattern may think: one that backtracks (a+)+ can take longer than the universe has existed."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class OutOfPatience(Exception):
    """It took longer than it may."""


@contextlib.contextmanager
def at_most(limit_s: float) -> Iterator[None]:
    """Raises OutOfPatience inside the block after `limit_s`. Without effect outside the main thread, and on Windows."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise OutOfPatience

    before = signal.signal(signal.SIGALRM, stop)
    left = signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGALRM, before)
