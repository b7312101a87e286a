"""`python -m tokenswarm.stepload`, what `make stepload` runs: a target, a staircase under Locust, the analysis.

Without a target a real small model is served on this machine, or the simulator where that cannot be had. Exit codes:
0 measured, 2 wrong use or no fit target, 3 interrupted (what was measured is kept), 4 rows could not be written.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tokenswarm.local_server import LocalServer, ServerUnavailable, die_with_parent, serve_model, serve_simulator
from tokenswarm.options import add_arguments, resolve
from tokenswarm.runfolder import RunFolder, RunFolderError
from tokenswarm.usage_error import UsageError

ROOT = Path(__file__).resolve().parent.parent
LOCUSTFILES = "locustfiles/chat.py,scenarios/stepload.py"
SIMULATOR = "sim"
# Of the model that is served here: measured to show the whole staircase within a minute and a half on two cores.
LOCAL = {"step_time": "20s", "warmup": "5s", "prompt_tokens": 64, "max_tokens": 32}
WRONG_USE, NOT_RECORDED = 2, 4


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make stepload",
        description="Drive an LLM server up a staircase of concurrent users and draw latency versus concurrency.",
        epilog="Each option can also be given to make as a variable: STEPS=1,5,20 STEP_TIME=1m. Others go to Locust as they are.",
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


def start_server(target: str) -> LocalServer | None:
    """The server of ours that the load needs, if it needs one; says what it does."""
    if target == SIMULATOR:
        print(
            "Starting the simulator on this machine (TARGET=sim): its figures are those of no real model.", flush=True
        )
        return serve_simulator(ROOT)
    if target:
        return None
    try:
        server = serve_model(ROOT)
    except ServerUnavailable as reason:
        print(f"{reason}\nThe simulator serves instead: its figures are those of no real model.", flush=True)
        return serve_simulator(ROOT)
    print(
        "No TARGET was given: a small real model (SmolLM2-135M on llama.cpp, one thread) is served on this machine,\n"
        "with short steps. Measure your own server with: make stepload TARGET=http://host:8000/v1",
        flush=True,
    )
    return server


def locust_command(given: argparse.Namespace, host: str, run: str, extra: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", "locust", "-f", LOCUSTFILES, "--headless", "--skip-log-setup", "--only-summary"]
    command += ["--host", host, "--run-name", run]
    if workers(given.workers) > 1:
        command += ["--processes", given.workers]
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


def run_locust(command: list[str]) -> int:
    """Locust's exit code. In a session of its own, so that Ctrl-C reaches it once, from here, and not each worker too."""
    child = subprocess.Popen(command, cwd=ROOT, start_new_session=True, preexec_fn=die_with_parent)

    def stop(number: int, _frame: object) -> None:
        if not getattr(stop, "said", False):
            stop.said = True  # type: ignore[attr-defined]
            print("\nStopping: requests in flight are cancelled, what was measured is kept …", flush=True)
            child.send_signal(signal.SIGINT)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(argv: Sequence[str] | None) -> int:
    parser = arguments()
    given, extra = parser.parse_known_args(argv)
    if given.target in ("", SIMULATOR):
        given = with_local_defaults(parser, argv)
    options = resolve(given)
    workers(given.workers)
    folder = RunFolder.planned(options.results, options.run_name)
    server = start_server(given.target)
    try:
        code = run_locust(locust_command(given, server.url if server else given.target, folder.name, extra))
    finally:
        if server is not None:
            server.stop()
    if code == WRONG_USE or not folder.is_dir():
        return code if code > 0 else WRONG_USE
    if code < 0:
        print(f"The load ended by signal {-code}; what was recorded is kept.", file=sys.stderr, flush=True)
        code = NOT_RECORDED
    analysed = subprocess.run([sys.executable, "-m", "analysis", "summary", str(folder)], cwd=ROOT, check=False)
    return code or analysed.returncode


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return run(argv)
    except (UsageError, RunFolderError) as error:
        print(error, file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
