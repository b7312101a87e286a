"""`python -m tokenswarm.web_start`, what `make ui` runs: a target, and Locust with its web UI on this machine's loopback.

Without a target a model is served here, as for `make stepload`. Other options go to Locust as they are: --web-host,
--web-port, --web-login, --prometheus-port. Exit codes are Locust's, and 2 for wrong use.
"""

import argparse
import sys
from collections.abc import Sequence

from tokenswarm.ctrl_c import CtrlC
from tokenswarm.options import resolve
from tokenswarm.stepload import (
    SIMULATOR,
    arguments,
    check_place,
    entered,
    locust_command,
    run_locust,
    start_server,
    with_local_defaults,
    workers,
)
from tokenswarm.target import parse_targets

NOT_HERE = ("--headless", "--skip-log-setup", "--only-summary")  # what a load without a page is run with
PAGE = ("--class-picker", "--web-host=127.0.0.1")
RUN_NAME = "--run-name"


def command(given: argparse.Namespace, host: str, extra: Sequence[str]) -> list[str]:
    """Locust's command line; `extra` comes last, so that it wins."""
    whole = [part for part in locust_command(given, host, given.run_name, ()) if part not in NOT_HERE]
    if not given.run_name:
        at = whole.index(RUN_NAME)
        del whole[at : at + 2]
    return [*whole, *PAGE, *extra]


def run(argv: Sequence[str] | None, stop: CtrlC) -> int:
    parser = arguments()
    parser.prog, parser.description = "make ui", "Plan capacity in Locust's web UI, http://localhost:8089."
    given, extra = parser.parse_known_args(argv)
    if given.target in ("", SIMULATOR):
        given = with_local_defaults(parser, argv)
    else:
        parse_targets(given.target)
    check_place(resolve(given).results)
    workers(given.workers)
    server = start_server(given.target, lambda: stop.count > 0)
    try:
        return 0 if stop.count else run_locust(command(given, server.url if server else given.target, extra), stop)
    finally:
        if server is not None:
            server.stop()


def main(argv: Sequence[str] | None = None) -> int:
    return entered(lambda stop: run(argv, stop), lambda presses: None)


if __name__ == "__main__":
    sys.exit(main())
