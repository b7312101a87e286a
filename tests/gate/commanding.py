"""The commands as `python -m analysis` offers them, without a process for each."""

import argparse
from pathlib import Path

from analysis import calibrate, gate_command


def command(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    gate_command.add_baseline(commands)
    gate_command.add_gate(commands)
    calibrate.add_parser(commands)
    asked = parser.parse_args(list(map(str, words)))
    run = {"baseline": gate_command.run_baseline, "gate": gate_command.run_gate, "calibrate": calibrate.run}
    return run[asked.command](asked)
