"""What `compare` hands out: a page, a picture, and a text for the terminal."""

import io
import os
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis import compare_plots, page, report_facts, report_theme
from analysis.compare import Difference, Figure, Runs, differences, figures, unlike_definitions

UNKNOWN = "unknown"


def write(runs: Runs, path: Path) -> list[Path]:
    """The page at `path` and the picture beside it, each whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(html(runs), encoding="utf-8")
    os.replace(part, path)
    return [path, compare_plots.sheet(runs, path.with_suffix(".png"))]


def html(runs: Runs) -> str:
    """The page."""
    plots = compare_plots.curves(runs)
    colors = report_theme.step_colors(len(runs.labels))
    context = {
        "title": " against ".join(runs.labels),
        "labels": runs.labels,
        "legend": [(compare_plots.tag(index), label, colors[index]) for index, label in enumerate(runs.labels)],
        "unlike": unlike_definitions(runs),
        "differences": differences(runs),
        "warnings": [
            (label, warning)
            for label, one in zip(runs.labels, runs.analyses, strict=True)
            if (warning := report_facts.warning(one.summary))
        ],
        "curves": plots,
        "figures": figures(runs),
    }
    return page.render("compare.html", page.scripts(plots), len(runs.labels), context)


def text(runs: Runs, width: int) -> str:
    """For a terminal: what differs first, then a row for each figure and number of users."""
    out = io.StringIO()
    console = Console(file=out, width=width, no_color=True, highlight=False, emoji=False)
    unlike = unlike_definitions(runs)
    if unlike:
        console.print(Text(unlike))
    found = differences(runs)
    console.print(Text("Different conditions:" if found else "No condition that is known differs."))
    if found:
        console.print(_differences(runs, found))
    for label, one in zip(runs.labels, runs.analyses, strict=True):
        warning = report_facts.warning(one.summary)
        if warning:
            console.print(Text(f"{label}: {warning}"))
    made = figures(runs)
    if made:
        console.print(_figures(runs, made))
        base = runs.labels[0]
        console.print(Text(f"×: ratio to {base}. ~: the intervals overlap, no difference was shown."))
    else:
        console.print(Text("No two runs held the same number of users: only the curves compare."))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _differences(runs: Runs, found: list[Difference]) -> Table:
    table = Table("", box=box.SIMPLE_HEAD, pad_edge=False)
    for label in runs.labels:
        table.add_column(Text(label))
    for one in found:
        table.add_row(Text(one.name), *(Text(value or UNKNOWN) for value in one.values))
    return table


def _figures(runs: Runs, made: list[Figure]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    table.add_column("Users", justify="right")
    for label in runs.labels:
        table.add_column(Text(label), justify="right")
    for one in made:
        for index, (users, cells) in enumerate(one.rows):
            head = f"{one.label}, {one.unit}" if one.unit and one.unit not in one.label.lower() else one.label
            texts = [f"{cell.text}  {cell.ratio}" if cell.ratio else cell.text for cell in cells]
            table.add_row(head if index == 0 else "", str(users), *texts, end_section=index == len(one.rows) - 1)
    return table
