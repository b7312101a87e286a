"""`calibrate`: how much runs of the same thing differ, measured by repeating one run against itself.

What runs differ by, beyond what each is unsure of by itself, is the spread that a gate with one baseline run must assume.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.gate_errors import GateUsage, NoEvidence

if TYPE_CHECKING:
    from analysis.spread import Spread

LEAST_RUNS = 3
LEAST_SPREAD = 0.0025  # a few runs that happen to agree are no proof that runs do
RESULTS = Path("results")


def add_parser(commands: Any) -> None:
    text = "measure how much runs of the same thing differ: from three runs or more, or by making them"
    parser = commands.add_parser("calibrate", help=text, description=text)
    parser.add_argument(
        "runs", nargs="*", help="folders of runs of the same thing; with --repeat: options of the load, after --"
    )
    parser.add_argument("--name", required=True, help="the baseline that the result is for")
    parser.add_argument("--repeat", type=int, default=0, metavar="N", help="make N runs with the options after --")
    parser.add_argument(
        "--budget", default="", metavar="FIGURE:CHANGE,…", help="figures to measure (default: the gate's)"
    )
    parser.add_argument("--baselines", type=Path, default=Path("baselines"), metavar="DIR", help="where baselines are")
    parser.epilog = "Options of the load are those of python -m tokenswarm.stepload: --repeat 3 -- --target URL"


def run(asked: argparse.Namespace) -> int:
    """Exit code: 0 measured, 2 wrong use, 4 nothing to measure by."""
    from analysis import baseline, budget, comparable, gate  # late: --help needs no pandas
    from analysis.errors import RunError
    from analysis.gate_command import folder_of

    try:
        baseline.checked(asked.name)
        wanted = [one for one in budget.parse(asked.budget or budget.DEFAULT) if not one.is_quality]
        folders = made(asked.repeat, asked.runs) if asked.repeat else [folder_of(Path(one)) for one in asked.runs]
        if len(folders) < LEAST_RUNS:
            raise GateUsage(f"{len(folders)} runs show no spread; name {LEAST_RUNS} or more, or --repeat {LEAST_RUNS}")
        runs = [gate.keep(folder) for folder in folders]
        if len({one.identity for one in runs}) < len(runs):
            raise GateUsage("the same run is named twice; it does not differ from itself")
        differs = comparable.compare(runs[-1], runs[:-1]).refused
        if differs:
            raise NoEvidence("These runs are not of the same thing: " + "; ".join(map(str, differs)))
        found = {one.name: measured(one, runs) for one in wanted}
        if all(value is None for value in found.values()):
            raise NoEvidence("None of these figures could be measured in these runs (see above); nothing was written.")
    except (GateUsage, NoEvidence, RunError) as error:
        print(f"calibrate: {error}", file=sys.stderr)
        return int(gate.Exit.WRONG_USE if isinstance(error, GateUsage) else gate.Exit.INVALID)
    path = write(
        {name: value for name, value in found.items() if value is not None}, [one.run_id for one in runs], asked
    )
    for name, value in found.items():
        print(f"{name}: {'not measured' if value is None else f'runs differ by ±{value.sd:.2%} (standard deviation)'}")
    print(path)
    return 0


def made(repeat: int, options: Sequence[str]) -> list[Path]:
    """The folders of `repeat` runs made now, one after the other. Raises NoEvidence where one could not be made."""
    stem = time.strftime("calibrate-%Y%m%dT%H%M%SZ", time.gmtime())
    folders = []
    for number in range(1, repeat + 1):
        name = f"{stem}-{number}"
        print(f"Run {number} of {repeat} …", flush=True)
        command = [sys.executable, "-m", "tokenswarm.stepload", *options, "--run-name", name, "--results", str(RESULTS)]
        code = subprocess.run(command, check=False).returncode
        if code:
            raise NoEvidence(f"Run {number} of {repeat} ended with exit code {code} (see above); nothing was written.")
        folders.append(RESULTS / name)
    return folders


def measured(budget: Any, runs: Sequence[Any]) -> "Spread | None":
    """By how much the figure differs from run to run, over all steps; None where no step shows it.

    Shares (error_ratio) have none: their doubt is that of their counts.
    """
    from analysis import spread
    from analysis.doubt import SHARES, Unjudgeable, figures_of, value_of

    if budget.metric.name in SHARES:
        return None
    groups = []
    for key in dict.fromkeys(step.key for one in runs for step in one.steps):
        steps = [one.step(key) for one in runs]
        try:
            there = [step for step in steps if step is not None]
            figures = figures_of(there, budget, [value_of(step, budget, "a run") for step in there])
        except Unjudgeable as why:
            print(f"note: {budget.name} at {key[0]} users: {why}", file=sys.stderr)
            continue
        if len(figures) >= LEAST_RUNS:
            groups.append(figures)
    if not groups:
        return None
    found = spread.of_runs(groups, None)
    return found if found.sd >= LEAST_SPREAD else spread.Spread(LEAST_SPREAD)


def write(found: dict[str, "Spread"], run_ids: Sequence[str], asked: argparse.Namespace) -> Path:
    from analysis.baseline import CALIBRATION

    folder = asked.baselines / asked.name
    folder.mkdir(parents=True, exist_ok=True)
    path: Path = folder / CALIBRATION
    sds, dfs = ({name: float(f"{getattr(one, field):.4g}") for name, one in found.items()} for field in ("sd", "df"))
    body = {"spread": sds, "df": dfs, "runs": list(run_ids)}
    path.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    return path
