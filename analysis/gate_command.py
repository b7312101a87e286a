"""The commands `baseline` and `gate` of `python -m analysis`; each has `add_parser` and `run`."""

import argparse
import math
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from analysis.gate_errors import GateUsage, NoEvidence

RESULTS = Path("results")
NONE = "none"


def add_baseline(commands: Any) -> None:
    text = "keep a run as a baseline, small enough to commit"
    parser = commands.add_parser("baseline", help=text, description=text)
    parser.add_argument("folder", type=Path, help="a run's folder, results/<run>")
    parser.add_argument("--name", required=True, help="name of the baseline; it may hold several runs")
    _add_root(parser)
    parser.add_argument("--allow", action="append", default=[], metavar="NAME", help="keep it although NAME differs")


def add_gate(commands: Any) -> None:
    text = "judge a run against a baseline: 0 pass, 1 fail, 2 wrong use, 3 inconclusive, 4 invalid or no evidence"
    parser = commands.add_parser("gate", help=text, description=text)
    parser.add_argument("folder", type=Path, help="a run's folder, results/<run>")
    parser.add_argument("--base", required=True, metavar="NAME", help="name of the baseline")
    parser.add_argument("--budget", default="", metavar="FIGURE:CHANGE,…", help="what may change, ttft_p95:+10%%,…")
    parser.add_argument(
        "--quality-budget", default="", metavar="FIGURE:CHANGE,…", help=f"the same for quality; {NONE}: not judged"
    )
    parser.add_argument(
        "--allow", action="append", default=[], metavar="NAME", help="NAME may differ: it is under test"
    )
    parser.add_argument("--at", default="", metavar="USERS,…", help="only these steps gate")
    parser.add_argument("--spread", default="", metavar="PERCENT", help="how much runs differ from each other, 2%%")
    parser.add_argument("--base-ref", default="", metavar="REF", help="read the baseline from this git revision")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="JUnit XML (default: gate.xml in the run's folder)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="Markdown (default: gate.md there)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="JSON (default: gate.json there)")
    _add_root(parser)


def _add_root(parser: Any) -> None:
    parser.add_argument("--baselines", type=Path, default=Path("baselines"), metavar="DIR", help="where baselines are")


def folder_of(given: Path) -> Path:
    """`results/<run>`, or just the run's name. Raises GateUsage where none is named."""
    if given == Path("."):  # an empty RUN
        raise GateUsage("which run? Name its folder: RUN=results/<run>")
    return RESULTS / given if not given.is_dir() and (RESULTS / given).is_dir() else given


def run_baseline(asked: argparse.Namespace) -> int:
    """Exit code: 0 kept, 2 wrong use, 4 nothing that could be a baseline."""
    from analysis import baseline, comparable, gate  # late: --help needs no pandas
    from analysis.errors import RunError
    from analysis.kept import valid

    try:
        baseline.checked(asked.name)
        run = gate.keep(folder_of(asked.folder))
        if not any(valid(step.verdict) for step in run.steps):
            raise NoEvidence("No step of this run is valid: a baseline of it would refuse every gate.")
        others = _others(asked.name, asked.baselines, run.run_id)
        if others:
            differs = comparable.compare(run, others, _names(asked.allow)).refused
            if differs:
                raise NoEvidence(
                    f"The baseline '{asked.name}' is of something else:\n"
                    + "\n".join(f"  {one}" for one in differs)
                    + f"\nChoose another NAME, or remove {asked.baselines / asked.name} if this run is to replace it."
                )
        path = baseline.write(run, asked.name, asked.baselines)
    except (GateUsage, NoEvidence, RunError) as error:
        print(f"baseline: {error}", file=sys.stderr)
        return int(gate.Exit.WRONG_USE if isinstance(error, GateUsage) else gate.Exit.INVALID)
    for step in run.steps:
        if not valid(step.verdict):
            print(f"note: the step with {step.label} is invalid and will pass no gate: {step.reasons}", file=sys.stderr)
    print(
        f"{path}: {path.stat().st_size / 1000:.0f} kB, {len(others) + 1} run{'s' if others else ''} in '{asked.name}'"
    )
    return 0


def _others(name: str, root: Path, run_id: str) -> list[Any]:
    from analysis import baseline

    try:
        return [one for one in baseline.read(name, root).runs if one.run_id != run_id]
    except NoEvidence:
        if any(path.name != baseline.CALIBRATION for path in (root / name).glob("*.json")):
            raise
        return []


def run_gate(asked: argparse.Namespace) -> int:
    """The gate's exit code, whatever happened."""
    from analysis import baseline, budget, gate, gate_files, gate_text
    from analysis.errors import RunError

    try:
        folder = folder_of(asked.folder)
        wanted = gate.Asked(
            budgets=_speed(budget.parse(asked.budget or budget.DEFAULT)),
            quality_budgets=quality_budgets(asked.quality_budget),
            allow=_names(asked.allow),
            users=_users(asked.at),
            spread=_percent(asked.spread),
        )
        try:
            found = gate.hold(
                baseline.read(asked.base, asked.baselines, asked.base_ref or None), gate.keep(folder), wanted
            )
        except (NoEvidence, RunError) as error:
            found = gate.refused(asked.base, [str(error)])
        gate_files.write(found, folder, asked.junit, asked.markdown, asked.json)
    except GateUsage as error:
        print(f"gate: {error}", file=sys.stderr)
        return int(gate.Exit.WRONG_USE)
    except OSError as error:
        print(f"gate: {error.filename}: {error.strerror}; the outcome could not be written", file=sys.stderr)
        return int(gate.Exit.WRONG_USE)
    color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    text = gate_text.render(found, shutil.get_terminal_size((110, 0)).columns, color)
    encoding = sys.stdout.encoding or "ascii"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    return int(found.exit_code)


def _speed(budgets: list[Any]) -> list[Any]:
    for one in budgets:
        if one.is_quality:
            raise GateUsage(f"BUDGET: {one.name} belongs into --quality-budget")
    return budgets


def quality_budgets(text: str) -> list[Any]:
    from analysis import budget

    if text.strip().lower() == NONE:
        return []
    found = budget.parse(text or budget.QUALITY_DEFAULT)
    for one in found:
        if not one.is_quality:
            raise GateUsage(f"--quality-budget: {one.name} belongs into --budget")
    return found


def _names(given: list[str]) -> list[str]:
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


def _users(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not re.fullmatch("[1-9][0-9]{0,8}", word):
            raise GateUsage(f"--at: '{word}' is no number of users; write it like 5,20")
    return tuple(map(int, words))


def _percent(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise GateUsage(f"--spread: '{text}' is no percentage; write it like 2%")
    return value
