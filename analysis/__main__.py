"""`python -m analysis summary results/<run>`: the table, summary.csv and the curve of a run."""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from analysis.errors import RunError
from tokenswarm.runfolder import REQUESTS_OF_ALL

SLOW_S = 2.0  # a person looking at nothing for longer wants to know why
SLOW_BYTES = 100_000_000  # takes about that long to read
USAGE = 2


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m analysis", description="Answers from a run's folder.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "print the table, write summary.csv, curve.png and curve.svg"
    summary = commands.add_parser("summary", help=text, description=text)
    summary.add_argument("folder", type=Path, help="a run's folder, results/<run>")
    text = "write one CSV row for each chunk of each request"
    tokens = commands.add_parser("tokens", help=text, description=text)
    tokens.add_argument("folder", type=Path, help="a run's folder, results/<run>")
    tokens.add_argument("--out", type=Path, help="file to write (default: tokens.csv in the folder)")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 2 wrong use or a folder that cannot be read."""
    asked = parser().parse_args(arguments)
    try:
        return _summary(asked.folder) if asked.command == "summary" else _tokens(asked.folder, asked.out)
    except RunError as error:
        print(f"analysis: {error}", file=sys.stderr)
    except OSError as error:
        print(f"analysis: {error.strerror}: {error.filename}", file=sys.stderr)
    return USAGE


def _summary(folder: Path) -> int:
    started = time.monotonic()
    _say_if_large(folder)
    from analysis import pipeline, summary, table  # late: --help and a wrong folder need no pandas

    found = pipeline.analyse(folder)
    summary.write(found.summary, folder)
    if time.monotonic() - started > SLOW_S:
        print("Drawing the curve …".translate(table.ASCII), file=sys.stderr, flush=True)
    from analysis import plots

    plots.write(found.summary, found.run.info, folder)
    width = shutil.get_terminal_size((table.WIDE, 0)).columns
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    sys.stdout.write(table.render(found.summary, found.requests, found.run, width, plain, color))
    print(folder)
    return 0


def _tokens(folder: Path, out: Path | None) -> int:
    _say_if_large(folder)
    from analysis import load, tokens

    print(tokens.write(load.load(folder), out or folder / tokens.FILE))
    return 0


def _say_if_large(folder: Path) -> None:
    size = sum(path.stat().st_size for path in folder.glob(REQUESTS_OF_ALL))
    if size > SLOW_BYTES:
        print(f"Reading {size / 1e6:.0f} MB ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
