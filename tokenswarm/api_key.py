"""The API key of a process: a fixed one, or one that a command prints anew, for tokens that expire in mid run.

The rule: the command runs before the load; then every `every_s` seconds; and at once when the server answers 401, but not
sooner than `PAUSE_S` after the last time. The request that got the 401 stays a failure: it is never sent again. A command
that fails during the load leaves the key as it is, and that is said once. The key is in no message, no log, no repr.
"""

import dataclasses
import logging
import os
import signal
import time
from collections.abc import Callable

import gevent
from gevent import subprocess
from gevent.event import Event

from tokenswarm.masking import masked
from tokenswarm.record import one_line
from tokenswarm.usage_error import UsageError

LIMIT_S = 30.0  # for the command
PAUSE_S = 5.0
EVERY_S = 300.0
WORDS = 200

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class KeyCommand:
    """A shell command whose first line of output is a key; its text may hold secrets itself."""

    command: str = dataclasses.field(repr=False)
    every_s: float | None = EVERY_S  # None: only when a server answers 401
    limit_s: float = LIMIT_S

    def run(self) -> str:
        """The key. Blocks only this greenlet. Raises UsageError, which never shows what the command printed to stdout."""
        process = subprocess.Popen(
            self.command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the load; and its children end with it
        )
        try:
            with gevent.Timeout(self.limit_s, subprocess.TimeoutExpired(["sh"], self.limit_s)):
                out, err = process.communicate()
        except subprocess.TimeoutExpired:
            raise UsageError(f"--api-key-command printed no key within {self.limit_s:g} s; run it by hand") from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        lines = out.decode("utf-8", "replace").strip().splitlines()
        if process.returncode != 0 or not lines:
            said = err.decode("utf-8", "replace").strip().splitlines()[-1:]
            for line in lines:
                said = [masked(text, [line]) for text in said]
            ended = f"ended with exit code {process.returncode}" if process.returncode else "printed nothing"
            raise UsageError(
                f"--api-key-command {ended}{f': {one_line(said[0], WORDS)}' if said else ''}; run it by hand"
            )
        return checked(lines[0], "--api-key-command")


def checked(key: str, source: str) -> str:
    """`key` without white space around it. Raises UsageError where no header can carry it."""
    key = key.strip()
    if not key.isascii() or not key.isprintable():
        raise UsageError(f"the API key of {source} holds characters that no header can carry; is it the right text?")
    return key


class KeyRing:
    """The present key. `renew` asks for a new one; `on_change` is called with each that differs from the one before."""

    def __init__(self, key: str | None, command: KeyCommand | None, on_change: Callable[[str], None]) -> None:
        self._key = key
        self._command = command
        self._on_change = on_change
        self._asked = Event()
        self._failed = False
        self._greenlet = gevent.spawn(self._work, command) if command is not None else None

    def renew(self) -> None:
        """The server has refused the key. Returns at once."""
        self._asked.set()

    def close(self) -> None:
        if self._greenlet is not None:
            self._greenlet.kill()

    def _work(self, command: KeyCommand) -> None:
        ran = time.monotonic()  # the first key was got just now
        while True:
            self._asked.wait(None if command.every_s is None else max(0.0, ran + command.every_s - time.monotonic()))
            gevent.sleep(max(0.0, ran + PAUSE_S - time.monotonic()))
            self._asked.clear()
            ran = time.monotonic()
            self._run(command)

    def _run(self, command: KeyCommand) -> None:
        try:
            key = command.run()
        except (UsageError, OSError) as error:
            if not self._failed:
                log.warning("the API key stays as it is: %s", error)
            self._failed = True
            return
        self._failed = False
        if key != self._key:
            self._key = key
            self._on_change(key)
