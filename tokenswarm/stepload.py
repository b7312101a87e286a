"""`python -m tokenswarm.stepload`, what `make stepload` runs: a target, a staircase under Locust, the analysis.

Without a target a real small model is served on this machine, or the simulator where that cannot be had. Exit codes:
0 measured, 2 wrong use or no fit target, 3 interrupted (what was measured is kept), 4 rows could not be written.
"""

import argparse
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from tokenswarm.ctrl_c import LOOK_S, CtrlC
from tokenswarm.local_server import LocalServer, ServerUnavailable, die_with_parent, serve_model, serve_simulator
from tokenswarm.options import add_arguments, resolve
from tokenswarm.runfolder import RunFolder, RunFolderError
from tokenswarm.usage_error import UsageError

ROOT = Path(__file__).resolve().parent.parent
LOCUSTFILES = "locustfiles/chat.py,scenarios/stepload.py"
SIMULATOR = "sim"
LOOPBACK = "127.0.0.1"
# Of the model that is served here: one core answers 50 users with some 3 requests/s, which must fit into a step.
LOCAL = {"step_time": "40s", "prompt_tokens": "48", "max_tokens": "12", "chinese_share": "0"}
WRONG_USE, INTERRUPTED, NOT_RECORDED = 2, 3, 4
GROUP_LIMIT_S = 10.0
IMPATIENT = 3  # this many Ctrl-C, and the load is killed


class Parser(argparse.ArgumentParser):
    """Wrong use is one sentence, not a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}. --help shows all options.")


def arguments() -> argparse.ArgumentParser:
    parser = Parser(
        prog="make stepload",
        description="Drive an LLM server up a staircase of concurrent users and draw latency versus concurrency.",
        epilog="Options can also be given to make as variables: STEPS=1,5,20 STEP_TIME=1m. Others go to Locust as they are.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--target", default="", help="base URL; 'sim' for the simulator; empty: a small model served here"
    )
    parser.add_argument("--workers", default="", help="load-generating processes on this machine (1)")
    add_arguments(parser)
    for name in ("model", "steps", "step_time", "warmup", "prompt_tokens", "max_tokens", "tokenizer", "seed"):
        from_environment(parser, name, name)
    from_environment(parser, "run_name", "run")
    from_environment(parser, "target", "target")
    from_environment(parser, "workers", "workers")
    if os.environ.get("TOKENSWARM_SLO"):
        parser.set_defaults(slo=[os.environ["TOKENSWARM_SLO"]])
    if os.environ.get("TOKENSWARM_SAVE_OUTPUTS", "") not in ("", "0"):
        parser.set_defaults(save_outputs=True)
    return parser


def from_environment(parser: argparse.ArgumentParser, option: str, variable: str) -> None:
    """TOKENSWARM_<VARIABLE>, where it is set and not empty, is the option's default; argparse checks it as typed."""
    value = os.environ.get(f"TOKENSWARM_{variable.upper()}")
    if value:
        parser.set_defaults(**{option: value})


def workers(text: str) -> int:
    if text and not re.fullmatch(r"[1-9]\d{0,3}", text):
        raise UsageError(f"WORKERS: '{text}' is no number of processes; give a whole number of 1 or more")
    return int(text or 1)


def with_local_defaults(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The options once more, with defaults for a model on this machine."""
    for option, value in LOCAL.items():
        if not os.environ.get(f"TOKENSWARM_{option.upper()}"):
            parser.set_defaults(**{option: value})
    return parser.parse_known_args(argv)[0]


def check_place(results: Path) -> None:
    """Before anything is started: can a folder be made there? Raises UsageError."""
    place = next(path for path in (results.absolute(), *results.absolute().parents) if path.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        why = "is not writable" if place.is_dir() else "is a file"
        raise UsageError(f"Runs cannot be kept in {results}: {place} {why}. Choose another place with --results.")


def start_server(target: str, stopped: Callable[[], bool]) -> LocalServer | None:
    """The server of ours that the load needs, if it needs one; says what it does. Raises ServerUnavailable."""
    if target == SIMULATOR:
        print(
            "Starting the simulator on this machine (TARGET=sim): its figures are those of no real model.", flush=True
        )
        return serve_simulator(ROOT, stopped)
    if target:
        return None
    try:
        server = serve_model(ROOT, stopped)
    except ServerUnavailable as reason:
        print(f"{reason}\nThe simulator serves instead: its figures are those of no real model.", flush=True)
        return serve_simulator(ROOT, stopped)
    if server is None:
        return None
    print(
        "No TARGET was given: a small real model (SmolLM2-135M on llama.cpp, one thread) is served on this machine,\n"
        "with short steps. Measure your own server with: make stepload TARGET=http://host:8000/v1",
        flush=True,
    )
    return server


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        return int(listener.getsockname()[1])


def locust_command(given: argparse.Namespace, host: str, run: str, extra: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", "locust", "-f", LOCUSTFILES, "--headless", "--skip-log-setup", "--only-summary"]
    command += ["--host", host, "--run-name", run]
    if workers(given.workers) > 1:
        # the master listens on the loopback only, and on a port of its own: two loads may run side by side
        port = str(free_port())
        command += ["--processes", given.workers, "--master-bind-host", LOOPBACK, "--master-bind-port", port]
        command += ["--master-host", LOOPBACK, "--master-port", port]
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    for action in parser._actions:
        value = getattr(given, action.dest)
        if action.dest == "run_name" or value in (None, "", [], False):
            continue
        option = action.option_strings[0]
        for part in value if isinstance(value, list) else [value]:
            command += [option] if part is True else [f"{option}={part}"]
    return command + list(extra)


def prepare_child() -> None:
    """In a child, before exec. Until Locust's loop takes signals, a Ctrl-C waits (it is sent again) and never strikes."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_locust(command: list[str], stop: CtrlC) -> int:
    """Locust's exit code. In a session of its own, so that Ctrl-C reaches it once, from here, and not each worker too."""
    child = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=prepare_child
    )

    def look() -> None:
        if stop.count >= IMPATIENT:
            child.kill()
        elif stop.count:
            child.send_signal(signal.SIGINT)

    code = stop.wait(child, look)
    if code < 0:
        end_group(child.pid)
    return code


def end_group(group: int) -> None:
    """Workers whose master was killed: they close their files, then they are gone."""
    for _ in range(int(GROUP_LIMIT_S / LOOK_S)):
        try:
            os.killpg(group, signal.SIGTERM)  # again changes nothing
        except ProcessLookupError:
            return
        time.sleep(LOOK_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def analyse(folder: Path, stop: CtrlC) -> int:
    """The analysis' exit code. A Ctrl-C that comes now is for it."""
    child = subprocess.Popen(
        [sys.executable, "-m", "analysis", "summary", str(folder)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=prepare_child,
    )
    before = stop.count
    code = stop.wait(child, lambda: child.terminate() if stop.count > before else None)
    if stop.count > before:
        print(f"The analysis was stopped; make it again with: python -m analysis summary {folder}", file=sys.stderr)
        return INTERRUPTED
    return code


def say_stopping(count: int) -> None:
    if count == 1:
        print("\nStopping: requests in flight are cancelled, what was measured is kept …", flush=True)


def run(argv: Sequence[str] | None, stop: CtrlC) -> int:
    parser = arguments()
    given, extra = parser.parse_known_args(argv)
    if given.target in ("", SIMULATOR):
        given = with_local_defaults(parser, argv)
    options = resolve(given)
    workers(given.workers)
    folder = RunFolder.planned(options.results, options.run_name)
    check_place(options.results)
    server = start_server(given.target, lambda: stop.count > 0)
    try:
        if stop.count:
            return INTERRUPTED
        code = run_locust(locust_command(given, server.url if server else given.target, folder.name, extra), stop)
    finally:
        if server is not None:
            server.stop()
    if code < 0:
        print(f"The load ended by signal {-code}; what was recorded is kept.", file=sys.stderr, flush=True)
        code = NOT_RECORDED
    if not folder.is_dir():
        return INTERRUPTED if stop.count else code
    if code == WRONG_USE:  # a folder of that name came from elsewhere in the meantime: it is not ours to analyse
        return code
    analysed = analyse(folder, stop)
    return code or analysed  # what happened to the run says more than what happened to its analysis


def entered(command: Callable[[CtrlC], int], on_press: Callable[[int], None]) -> int:
    """Exit code of `command`, which is told of every Ctrl-C. What a person did wrong is said in a sentence."""
    with CtrlC(on_press) as stop:
        try:
            return command(stop)
        except (UsageError, RunFolderError, ServerUnavailable) as error:
            print(error, file=sys.stderr)
            return WRONG_USE


def main(argv: Sequence[str] | None = None) -> int:
    return entered(lambda stop: run(argv, stop), say_stopping)


if __name__ == "__main__":
    sys.exit(main())
