"""`python -m analysis COMMAND`: answers from the folders of runs. Each command says in `--help` what it writes."""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from analysis.alongside import Alongside
from analysis.errors import RunError
from tokenswarm.runfolder import REQUESTS_OF_ALL
from tokenswarm.usage_error import UsageError

SLOW_S = 2.0  # a person looking at nothing for longer wants to know why
SLOW_BYTES = 100_000_000  # takes about that long to read
USAGE = 2
EXAMPLES = """examples:
  python -m analysis report results/monday
  python -m analysis report results/monday --slo ttft_p95=500ms --slo error_ratio=1% --users 200
  python -m analysis compare results/monday results/tuesday
"""
RUN_HELP = "a run's folder, results/<run>"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    from analysis import asked, calibrate, gate_command

    top = argparse.ArgumentParser(
        prog="python -m analysis",
        description="Answers from a run's folder: what the server can carry, where it bends, what to distrust.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", metavar="COMMAND", title="commands")

    def command(name: str, text: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        made.set_defaults(run=run)
        return made

    summary = command("summary", "print the table; write summary.csv, the curve and the report", _summary)
    report = command("report", "print the findings; write report.html, report.md and each curve", _report)
    for one in (summary, report):
        one.add_argument("folder", type=Path, help=RUN_HELP)
        asked.add_arguments(one)
    compare = command("compare", "lay the curves of several runs over each other", _compare)
    compare.add_argument("folders", type=Path, nargs="+", metavar="folder", help=f"{RUN_HELP}; the first is the base")
    compare.add_argument("--out", type=Path, help="page to write (default: compare.html in the last folder)")
    tokens = command("tokens", "write one CSV row for each chunk of each request", _tokens)
    tokens.add_argument("folder", type=Path, help=RUN_HELP)
    tokens.add_argument("--out", type=Path, help="file to write, .csv or .parquet (default: tokens.csv in the folder)")
    vllm = command("vllm", "write each step as the JSON of `vllm bench serve --save-result`", _vllm)
    vllm.add_argument("folder", type=Path, help=RUN_HELP)
    vllm.add_argument("--out", type=Path, help="folder to write into (default: the run's folder)")
    for add, run in (
        (gate_command.add_baseline, gate_command.run_baseline),
        (gate_command.add_gate, gate_command.run_gate),
        (calibrate.add_parser, calibrate.run),
    ):
        known = set(commands.choices)
        add(commands)
        for name in set(commands.choices) - known:
            commands.choices[name].set_defaults(run=run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 2 wrong use or a folder that cannot be read."""
    top = parser()
    asked = top.parse_args(arguments)
    if asked.command is None:
        top.print_help()
        return USAGE
    try:
        return int(asked.run(asked))
    except (RunError, UsageError) as error:
        print(f"analysis: {error}", file=sys.stderr)
    except BrokenPipeError:  # whoever reads has had enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, else Python complains once more at its end
        return 0
    except OSError as error:
        print(f"analysis: {error.strerror}: {error.filename}", file=sys.stderr)
    return USAGE


def _summary(given: argparse.Namespace) -> int:
    from analysis import asked, plots

    started, wanted = time.monotonic(), asked.resolve(given)
    with Alongside(plots.write, plots.prepare) as drawing:
        found, findings = _found(given.folder, wanted)
        drawing.begin(found.summary, found.run.info, given.folder)
        from analysis import report, table

        sys.stdout.write(table.render(found.summary, found.requests, found.run, *_terminal(), findings=findings))
        sys.stdout.flush()
        if time.monotonic() - started > SLOW_S:
            _say("Drawing the curve and the report …")
        page = report.write(found, findings)[0]
        drawing.result()
    print(page)
    print(given.folder)
    return 0


def _report(given: argparse.Namespace) -> int:
    from analysis import asked, plots, report_slides

    wanted = asked.resolve(given)
    with (
        Alongside(plots.write, plots.prepare) as curve,
        Alongside(report_slides.write, plots.prepare) as slides,
    ):
        found, findings = _found(given.folder, wanted)
        for drawing in (curve, slides):
            drawing.begin(found.summary, found.run.info, given.folder)
        from analysis import report

        for one in findings:
            print(_plain(f"- {one.text}"))
        _say("Drawing …")
        pages = report.write(found, findings)
        curve.result()
        for path in (*pages, *slides.result()):
            print(path)
    return 0


def _found(folder: Path, wanted: Any) -> tuple[Any, list[Any]]:
    """The analysis, its summary written, and the findings."""
    _say_if_large(folder)
    from analysis import findings, pipeline, summary  # late: --help and a wrong folder need no pandas

    found = pipeline.analyse(folder, wanted.tokenizer)
    summary.write(found.summary, folder)
    return found, findings.findings(found, wanted.slos, wanted.prices, wanted.users, wanted.headroom)


def _compare(given: argparse.Namespace) -> int:
    if len(given.folders) < 2:
        raise UsageError("compare needs two folders or more: python -m analysis compare results/a results/b")
    from analysis import compare, compare_report

    for folder in given.folders:
        _say_if_large(folder)
    found = compare.compared(given.folders)
    sys.stdout.write(_plain(compare_report.text(found, _terminal()[0])))
    for path in compare_report.write(found, given.out or given.folders[-1] / compare.FILE):
        print(path)
    return 0


def _vllm(given: argparse.Namespace) -> int:
    _say_if_large(given.folder)
    from analysis import pipeline, vllm_json

    for path in vllm_json.write(pipeline.analyse(given.folder), given.out or given.folder):
        print(path)
    return 0


def _tokens(given: argparse.Namespace) -> int:
    _say_if_large(given.folder)
    from analysis import pipeline, tokens

    print(tokens.write(pipeline.read(given.folder), given.out or given.folder / tokens.FILE))
    return 0


def _terminal() -> tuple[int, bool, bool]:
    """Width, whether it knows ASCII only, whether it wants colours."""
    width = shutil.get_terminal_size((120, 0)).columns
    return width, _is_plain(), sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _is_plain() -> bool:
    return not (sys.stdout.encoding or "").lower().startswith("utf")


def _plain(text: str) -> str:
    """`text` as this terminal can print it."""
    from analysis import table

    return table.in_ascii(text) if _is_plain() else text


def _say_if_large(folder: Path) -> None:
    size = sum(path.stat().st_size for path in folder.glob(REQUESTS_OF_ALL))
    if size > SLOW_BYTES:
        _say(f"Reading {size / 1e6:.0f} MB …")


def _say(text: str) -> None:
    """Progress, on the error stream."""
    encoding = sys.stderr.encoding or "ascii"
    print(text.replace("…", "...") if not encoding.lower().startswith("utf") else text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
