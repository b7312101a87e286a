"""A server on this machine for a load that has no target: started as a process of its own, always stopped."""

import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

START_LIMIT_S = 90.0
STOP_LIMIT_S = 10.0
PR_SET_PDEATHSIG = 1
LOOK_S = 0.2
_ADDRESS = re.compile(rb"listening on (http://\S+)\n")


class ServerUnavailable(Exception):
    """It cannot be had here; the text says why."""


def die_with_parent() -> None:
    """In a child, before exec: SIGTERM when its parent is gone, however that ended. Linux only; elsewhere nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class LocalServer:
    """A running server and its base URL."""

    def __init__(self, process: "subprocess.Popen[bytes]", url: str) -> None:
        self.process = process
        self.url = url

    def stop(self) -> None:
        """Ends the process that was started, by its id."""
        self.process.terminate()
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def serve_model(root: Path, stopped: Callable[[], bool]) -> LocalServer | None:
    """SmolLM2-135M on llama.cpp. Raises ServerUnavailable."""
    return _start([sys.executable, "-m", "demo.serve", "--port", "0"], root, "The local model", stopped)


def serve_simulator(root: Path, stopped: Callable[[], bool]) -> LocalServer | None:
    """Raises ServerUnavailable."""
    return _start([sys.executable, "-m", "simulator", "--port", "0"], root, "The simulator", stopped)


def _start(command: list[str], root: Path, name: str, stopped: Callable[[], bool]) -> LocalServer | None:
    """None where `stopped` has become true before it was up: then nothing runs."""
    words = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process; a pipe that nobody reads would block it
    process = subprocess.Popen(
        command,
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=words,
        start_new_session=True,  # Ctrl-C is for the load; the server is stopped after it
        preexec_fn=die_with_parent,
    )
    assert process.stdout is not None
    said = b""
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and not stopped():
        readable, _, _ = select.select([process.stdout], [], [], LOOK_S)
        more = os.read(process.stdout.fileno(), 65536) if readable else None
        said += more or b""
        found = _ADDRESS.search(said)
        if found:
            return LocalServer(process, found.group(1).decode())
        if more == b"":
            break
    LocalServer(process, "").stop()
    if stopped():
        return None
    words.seek(0)
    last = words.read().strip().splitlines()[-1:] or [f"it did not start within {START_LIMIT_S:g} s"]
    raise ServerUnavailable(f"{name} cannot be served here: {last[0]}")
