"""The gate's outcome for people: a table to be read in ten seconds, and the same as Markdown for a pull request."""

import io
import math
import time
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from analysis.baseline import Baseline
from analysis.budget import Form
from analysis.change import FAIL_RISK, PASS_RISK
from analysis.gate import Gate
from analysis.printable import printable
from analysis.scale import WITHHELD, Scale
from analysis.verdicts import Judged, Verdict

DAY_S = 86400
STYLES = {Verdict.PASS: "green", Verdict.FAIL: "bold red", Verdict.INCONCLUSIVE: "yellow", Verdict.INVALID: "magenta"}
ORDER = (Verdict.FAIL, Verdict.INVALID, Verdict.INCONCLUSIVE, Verdict.PASS)
# What a figure that got worse points to.
POINTS_TO = {
    "ttft": "prefill or queueing is slower",
    "ttfo": "prefill, queueing or reasoning is slower",
    "itl": "decode is slower or less even",
    "itl_per_token": "decode is slower or less even",
    "tpot": "decode is slower",
    "user_tokens_per_s": "decode is slower",
    "error_ratio": "more requests fail or come back empty",
    "truncated_ratio": "more answers run into their limit",
}
MARKUP = "\\`*[]|~"  # of Markdown, inside a line
HEAD = ("where", "figure", "baseline", "this run", "change", "interval", "budget", "verdict")


def value(one: Judged, figure: float) -> str:
    """A figure in its unit."""
    if not math.isfinite(figure):
        return WITHHELD
    unit = one.budget.metric.unit
    if unit == "s":
        scale = Scale.of_seconds([figure])
        return f"{scale.text(figure)} {scale.unit}"
    if one.in_points:
        return f"{figure * 100:.1f} %"
    return Scale("", 1).text(figure)


def change(one: Judged, figure: float) -> str:
    """A change with its sign: % or, of shares, percentage points."""
    if math.isnan(figure):
        return WITHHELD
    return f"{figure * 100:+.1f} {'pp' if one.in_points else '%'}"


def interval(one: Judged) -> str:
    if math.isnan(one.low) or one.low == one.high:
        return WITHHELD if math.isnan(one.low) else "exact"
    return f"{one.low * 100:+.1f} … {one.high * 100:+.1f}"


def budget(one: Judged) -> str:
    """What was allowed; where the floor is larger than the percentage, that is said."""
    if not one.gating:
        return ""
    written = str(one.budget).partition(":")[2].partition("|")[0]
    if one.budget.form is Form.PERCENT and math.isfinite(one.limit) and abs(one.limit) > one.budget.size * 1.001:
        floor = str(one.budget).partition("|")[2]
        return f"{written} or {floor}" if floor else written
    return written


def verdict(one: Judged) -> str:
    if one.gating:
        return one.verdict.value + (" (better)" if one.improved and one.verdict is Verdict.PASS else "")
    if one.improved:
        return "better"
    worse = one.low > 0 if one.budget.sign > 0 else one.high < 0
    return "worse" if worse else ""


def cells(one: Judged) -> list[str]:
    """The texts under HEAD."""
    figures = [value(one, one.base), value(one, one.run), change(one, one.change), interval(one)]
    return [one.where, one.budget.name, *figures, budget(one), verdict(one)]


def headline(gate: Gate) -> str:
    """The verdict, and in one clause why."""
    said = gate.verdict.value.upper()
    if gate.refusals:
        return f"{said}: nothing was compared"
    decided = [one for one in gate.judged if one.verdict is gate.verdict]
    if gate.verdict is Verdict.PASS:
        better = sum(one.improved for one in gate.judged)
        within = (
            "the one figure is within its budget"
            if len(decided) == 1
            else f"all {len(decided)} figures are within budget"
        )
        return f"{said}: {within}" + (f", {better} got better" if better else "")
    if gate.verdict is Verdict.FAIL:
        which = dict.fromkeys(f"{one.budget.name} at {one.where}{points_to(one)}" for one in decided)
        return f"{said}: {'; '.join(which)}"
    is_one = len(decided) == 1
    what = f"{'is' if is_one else 'are'} not decided" if gate.verdict is Verdict.INCONCLUSIVE else "cannot be judged"
    return f"{said}: {len(decided)} of {len(gate.judged)} figures {what}"


def points_to(one: Judged) -> str:
    found = POINTS_TO.get(one.budget.metric.name)
    return f" ({found})" if found else ""


def about(gate: Gate, now_s: float | None = None) -> Iterator[str]:
    """What was compared with what."""
    run = gate.run.run_id if gate.run else "the run"
    yield f"{run} against baseline {gate.baseline_name}" + (f": {runs(gate.baseline, now_s)}" if gate.baseline else "")


def runs(baseline: Baseline, now_s: float | None = None) -> str:
    told = []
    for one in baseline.runs:
        age = WITHHELD if one.started_at is None else _age((time.time() if now_s is None else now_s) - one.started_at)
        told.append(f"{one.run_id} ({age}, {one.hash or 'not kept'})")
    return ", ".join(told)


def _age(seconds: float) -> str:
    return f"{seconds / DAY_S:.0f} days old" if seconds >= 2 * DAY_S else f"{max(seconds, 0) / 3600:.0f} h old"


def ending(gate: Gate) -> str:
    """The exit code in words: `make` shows it, and ends with 2 itself whatever it was."""
    return f"exit code {int(gate.exit_code)} ({gate.verdict.value})"


def reasons(gate: Gate) -> Iterator[str]:
    """Why, for all that is no plain pass: one line for figures of a step that have the same reason."""
    yield from gate.refusals
    grouped: dict[tuple[Verdict, str, str], list[str]] = {}
    for one in ordered(gate):
        if one.reason:
            grouped.setdefault((one.verdict, one.where, one.reason), []).append(one.budget.name)
    for (_, where, reason), figures in grouped.items():
        yield f"{', '.join(figures)} at {where}: {reason}"


def seen(gate: Gate) -> list[Judged]:
    """What gates nothing, as far as it could be compared."""
    return [one for one in gate.shown if math.isfinite(one.change)]


def warnings(gate: Gate) -> Iterator[str]:
    found = gate.comparison
    if found is not None:
        if found.refused and gate.refusals:
            names = ",".join(one.name for one in found.refused)
            yield f"if that is what is under test, allow it by name: --allow {names}"
        for one in found.allowed:
            yield f"allowed to differ: {one}"
        if found.unknown:
            yield f"unknown, so not known to be equal: {', '.join(found.unknown)} (tell them with --condition NAME=VALUE)"
        if found.noted:
            yield f"differs, without effect on the verdict: {'; '.join(map(str, found.noted))}"
    yield from gate.notes
    if gate.judged:
        yield (
            f"intervals: a change as large as its budget passes in {PASS_RISK:.0%} of cases; any of {gate.comparisons} "
            f"changes within budget fails in {FAIL_RISK:.0%}"
        )


def ordered(gate: Gate) -> list[Judged]:
    return sorted(gate.judged, key=lambda one: ORDER.index(one.verdict))


def render(gate: Gate, width: int, color: bool = False, now_s: float | None = None) -> str:
    """The text for a terminal."""
    text = io.StringIO()
    console = Console(
        file=text,
        width=max(width, 60),
        force_terminal=color,
        no_color=not color,
        highlight=False,
        emoji=False,
        markup=False,
    )
    console.print(printable(headline(gate)), style=STYLES[gate.verdict] if color else None)
    for line in about(gate, now_s):
        console.print(printable(line))
    moved = [one for one in seen(gate) if verdict(one)]
    still = len(seen(gate)) - len(moved)
    for title, lines in (("", ordered(gate)), ("Gating nothing, changed for sure", moved)):
        if lines:
            console.print()
            console.print(_table(title, lines))
    console.print()
    if still:
        console.print(
            f"{still} more figures gate nothing and did not change for sure; gate.md and gate.json show them."
        )
    for line in reasons(gate):
        console.print(printable(f"- {line}"))
    for line in warnings(gate):
        console.print(printable(f"note: {line}"))
    console.print(ending(gate))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _table(title: str, lines: list[Judged]) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False, title=title or None, title_justify="left"
    )
    for index, head in enumerate(HEAD):
        table.add_column(head, justify="left" if index in (0, 1, 7) else "right", no_wrap=index in (1, 5, 7))
    for one in lines:
        table.add_row(
            *map(printable, cells(one)),
            style=STYLES[one.verdict] if one.gating and one.verdict is not Verdict.PASS else None,
        )
    return table


def markdown(gate: Gate, now_s: float | None = None) -> str:
    """For a pull request."""
    marks = {Verdict.PASS: "✅", Verdict.FAIL: "❌", Verdict.INCONCLUSIVE: "❔", Verdict.INVALID: "⚠️"}
    lines = [f"### {marks[gate.verdict]} Gate: {_md(headline(gate))}", ""]
    lines += [_md(line) for line in about(gate, now_s)]
    if gate.judged:
        lines += ["", *_md_table(ordered(gate))]
    lines += ["", *(f"- {_md(line)}" for line in reasons(gate))]
    if seen(gate):
        lines += ["", "<details><summary>Gating nothing</summary>", "", *_md_table(seen(gate)), "", "</details>"]
    lines += ["", *(f"<sub>{_md(line)}</sub><br>" for line in warnings(gate))]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _md(text: str) -> str:
    """`text` as it is: whoever wrote it makes no markup, no link and no column of it."""
    for char, instead in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(char, instead)
    return "".join(f"\\{char}" if char in MARKUP else char for char in printable(text))


def _md_table(lines: list[Judged]) -> list[str]:
    rows = [list(HEAD), ["---"] * len(HEAD), *([_md(cell) for cell in cells(one)] for one in lines)]
    return ["| " + " | ".join(row) + " |" for row in rows]
