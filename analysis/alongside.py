"""Work in a second process while this one goes on: pictures are drawn while the page is made, files read in halves.

The second process is forked, so it has loaded what this one has; where that cannot be (one core, no Linux), or where it
vanishes, the work is done here when its result is asked for. So it can only be faster, never fail in its own way.
"""

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")


class Alongside(Generic[Given, Made]):
    """`with Alongside(work) as one: one.begin(…); …; one.result()`, the latter two as often as there is work.

    `prepare` is called in the second process at once. Leaving the block ends that process, whatever it is doing: work
    must write its files whole or not at all.
    """

    def __init__(self, work: Callable[Given, Made], prepare: Callable[[], object] | None = None) -> None:
        self._work = work
        self._given: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self._process: multiprocessing.context.ForkProcess | None = None
        if sys.platform == "linux" and cores() > 1:
            context = multiprocessing.get_context("fork")
            self._ours, theirs = context.Pipe()
            self._process = context.Process(target=_serve, args=(self._ours, theirs, work, prepare), daemon=True)
            self._process.start()
            theirs.close()

    def __enter__(self) -> "Alongside[Given, Made]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._ours.close()
            self._process.terminate()
            self._process.join()

    def begin(self, *args: Given.args, **kwargs: Given.kwargs) -> None:
        """What the work is about. The result of what was begun before must have been asked for."""
        self._given = args, kwargs
        if self._process is not None:
            with contextlib.suppress(OSError):  # it is gone; result() will see it
                self._ours.send(self._given)

    def result(self) -> Made:
        """Waits for the work. Raises what it raised."""
        if self._process is not None:
            try:
                answer: tuple[Made, Exception | None] = self._ours.recv()
            except (EOFError, OSError):  # killed, for memory or by someone
                pass
            else:
                if answer[1] is not None:
                    raise answer[1]
                return answer[0]
        args, kwargs = self._given
        return self._work(*args, **kwargs)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _serve(
    not_ours: Connection, ours: Connection, work: Callable[..., Any], prepare: Callable[[], object] | None
) -> None:
    gc.freeze()  # what was made before stays shared: looking through it for garbage would copy it page by page
    not_ours.close()  # else it would never be seen that the first process is gone
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which ends this one
    try:
        if prepare is not None:
            prepare()
        while True:
            args, kwargs = ours.recv()
            ours.send(_answer(work, args, kwargs))
    except (EOFError, OSError):  # nobody asks any more
        pass


def _answer(work: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Exception | None]:
    try:
        return work(*args, **kwargs), None
    except Exception as error:  # raised where the result is asked for
        return None, error
