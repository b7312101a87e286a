"""SIGINT and SIGTERM of a command that starts other processes: counted, and looked at where it waits.

An exception that strikes anywhere would leave a server running or a file half done.
"""

import signal
import subprocess
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

LOOK_S = 0.2


class CtrlC:
    """`with CtrlC(said) as stop:` counts the signals; `said` is called with the count at each."""

    def __init__(self, said: Callable[[int], None]) -> None:
        self.count = 0
        self._said = said
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "CtrlC":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self._said(self.count)

    def wait(self, process: "subprocess.Popen[Any]", look: Callable[[], None]) -> int:
        """The exit code of `process`; `look` is called every LOOK_S until it is there."""
        while True:
            try:
                return process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                look()
