"""The summary as text for a terminal: verdicts first, then the figures. Plain ASCII where it knows no more."""

import dataclasses
import io
from collections.abc import Iterator, Sequence

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis import names, notices
from analysis.finding import Finding, FindingKind, Severity
from analysis.load import Run
from analysis.scale import WITHHELD, Scale
from tokenswarm.metrics import METRICS
from tokenswarm.record import Outcome

WIDE = 120  # columns; below, the steps are the columns
LABEL_WIDTH, STEP_WIDTH = 26, 9  # of the narrow layout
CELL_WIDTH = 5  # of a figure in the wide layout
SHOWN_FINDINGS = 4
BLOCKS_ABREAST = 4  # of latencies, four columns each, that fit into WIDE
STATS = (names.MEAN, *names.QUANTILES)
ASCII = str.maketrans(
    {"–": "-", "−": "-", "─": "-", "│": "|", "≥": ">=", "≤": "<=", "±": "+-", "²": "^2", "×": "x", "→": "->", "·": "*"}
    | {"µ": "u", "…": "...", "α": "alpha", "β": "beta", "γ": "gamma"}
)
PLAIN = Scale("", 1)


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together: `lines` are (label, one text a step)."""

    title: str
    unit: str  # of all its figures; "" where they differ, and the labels say it
    lines: list[tuple[str, list[str]]]


def render(
    summary: pd.DataFrame,
    requests: pd.DataFrame,
    run: Run,
    width: int,
    plain: bool = False,
    color: bool = False,
    findings: Sequence[Finding] = (),
) -> str:
    """The whole text. `plain`: ASCII only. summary, requests: as of `health.judge` and `steady.derive`."""
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=color, no_color=not color, highlight=False, emoji=False)
    findings = [one for one in findings if one.kind is not FindingKind.VERDICT]  # said in the lines above
    told = ["", *_found(findings)] if findings else []
    for line in (*notices.headline(summary, requests, run), *notices.verdicts(summary), *told):
        console.print(line)
    if len(summary):
        for table in _wide(summary) if width >= WIDE else _narrow(summary, width):
            console.print()
            console.print(table)
        console.print()
    shown = (
        [cell for block in latency_blocks(summary) for _, cells in block.lines for cell in cells]
        if len(summary)
        else []
    )
    for line in (*notices.errors(requests), *notices.footnotes(summary, run, any_withheld=WITHHELD in shown)):
        console.print(line)
    whole = "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"
    return in_ascii(whole) if plain else whole


def in_ascii(text: str) -> str:
    """`text` for a terminal that knows no more."""
    return text.translate(ASCII).encode("ascii", "backslashreplace").decode()


def _found(findings: Sequence[Finding]) -> list[Table]:
    """The first findings, each hanging from its dash; the report has them all."""
    if not findings:
        return []
    grid = Table.grid(padding=(0, 1, 0, 0))
    for one in findings[:SHOWN_FINDINGS]:
        grid.add_row("-", Text(one.text, style="yellow" if one.severity is Severity.WARNING else ""))
    if len(findings) > SHOWN_FINDINGS:
        grid.add_row("", Text(f"and {len(findings) - SHOWN_FINDINGS} more in the report", style="dim"))
    return [grid]


def shown_latencies(summary: pd.DataFrame) -> list[str]:
    """TTFT, ITL, TPOT, E2E; TTFO where it differs from TTFT, ITL per token where the server told it and it differs."""
    shown = [names.TTFT, names.ITL, names.TPOT, names.E2E]
    ttft, ttfo = summary[names.stat(names.TTFT, "p50")], summary[names.stat(names.TTFO, "p50")]
    if ((ttfo - ttft).abs() > 0.01 * ttft).any():
        shown.insert(1, names.TTFO)
    if summary[names.count(names.ITL_PER_TOKEN)].any() and ((summary[names.TOKENS_PER_CHUNK] - 1).abs() > 0.01).any():
        shown.insert(shown.index(names.ITL) + 1, names.ITL_PER_TOKEN)
    return shown


def latency_blocks(summary: pd.DataFrame) -> list[Block]:
    """One block for each of `shown_latencies`."""
    return [_latency_block(summary, metric) for metric in shown_latencies(summary)]


def _latency_block(summary: pd.DataFrame, metric: str) -> Block:
    columns = {which: summary[names.stat(metric, which)] for which in STATS}
    scale = Scale.of_seconds(pd.concat(list(columns.values())))
    lines = [(which, [scale.text(value) for value in column]) for which, column in columns.items()]
    return Block(METRICS[metric].label, scale.unit, lines)


def rate_block(summary: pd.DataFrame) -> Block:
    """Throughput of the system and of one user."""
    parts = [
        (METRICS[names.OUTPUT_TOKENS_PER_S].label, names.OUTPUT_TOKENS_PER_S, 1),
        (METRICS[names.TOTAL_TOKENS_PER_S].label, names.TOTAL_TOKENS_PER_S, 1),
        (f"{METRICS[names.USER_TOKENS_PER_S].label} p50", names.stat(names.USER_TOKENS_PER_S, "p50"), 1),
        (METRICS[names.REQUESTS_PER_S].label, names.REQUESTS_PER_S, 1),
        (f"{METRICS[names.GOODPUT_PER_S].label}/s", names.GOODPUT_PER_S, 1),
        (f"{METRICS[names.SLO_ATTAINMENT].label} %", names.SLO_ATTAINMENT, 100),
        (METRICS[names.TOKENS_PER_CHUNK].label, names.TOKENS_PER_CHUNK, 1),
    ]
    return Block(
        "Throughput",
        "",
        [(label, [PLAIN.text(x * factor) for x in summary[name]]) for label, name, factor in parts if name in summary],
    )


def count_block(summary: pd.DataFrame) -> Block:
    """Requests sent in the window and what became of them; kinds that never occurred are left away."""
    kinds = [(outcome.value.capitalize(), names.outcome_count(outcome)) for outcome in Outcome]
    kinds.append(("Open at close", names.CENSORED))
    lines = [("Sent", [str(count) for count in summary[names.SENT]])]
    lines += [(label, [str(count) for count in summary[name]]) for label, name in kinds if summary[name].any()]
    for name in (names.ERROR_RATIO, names.TRUNCATED_RATIO):
        lines.append((f"{METRICS[name].label} %", [PLAIN.text(ratio * 100) for ratio in summary[name]]))
    lines.append(("Window s", [PLAIN.text(length) for length in summary[names.WINDOW_LENGTH_S]]))
    return Block("Requests", "", lines)


def _load(summary: pd.DataFrame) -> Block:
    users = [str(value) for value in summary[names.TARGET_USERS]]
    return Block(
        "", "", [("Users", users), ("In flight", [PLAIN.text(x) for x in summary[names.OBSERVED_CONCURRENCY]])]
    )


def _grid() -> Table:
    return Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)


def _wide(summary: pd.DataFrame) -> Iterator[Table]:
    """One row a step: latencies, then throughput, then what became of the requests."""
    latencies = latency_blocks(summary)
    for first in range(0, len(latencies), BLOCKS_ABREAST):
        yield _by_step(_load(summary), latencies[first : first + BLOCKS_ABREAST])
    yield _by_step(_load(summary), [rate_block(summary)])
    yield _by_step(_load(summary), [count_block(summary)])


def _by_step(load: Block, blocks: list[Block]) -> Table:
    table = _grid()
    columns = load.lines[:]
    for head, _ in columns:
        table.add_column(head, justify="right", vertical="bottom")
    for block in blocks:
        for index, (label, cells) in enumerate(block.lines):
            columns.append((label, cells))
            if not block.unit:
                table.add_column(
                    label, justify="right", vertical="bottom", min_width=max(CELL_WIDTH, *map(len, label.split()))
                )
            else:  # the metric stands above its first column, the unit above its second
                above = (block.title, block.unit)[index] if index < 2 else ""
                gap = 1 if index == 0 else 0
                head = f"{above}\n{label}"
                table.add_column(head, justify="right", vertical="bottom", width=CELL_WIDTH + gap)
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*row)
    return table


def _narrow(summary: pd.DataFrame, width: int) -> Iterator[Table]:
    """One column a step, one section a metric; more steps than fit go into tables below each other."""
    fitting = max(1, (width - LABEL_WIDTH) // STEP_WIDTH)
    blocks = [*latency_blocks(summary), rate_block(summary), count_block(summary)]
    users, concurrency = _load(summary).lines
    for first in range(0, len(summary), fitting):
        part = slice(first, first + fitting)
        table = _grid()
        table.add_column(users[0], min_width=LABEL_WIDTH - 2)
        for head in users[1][part]:
            table.add_column(head, justify="right", min_width=STEP_WIDTH - 1)
        table.add_row(concurrency[0], *concurrency[1][part], end_section=True)
        for block in blocks:
            table.add_row(Text(f"{block.title} {block.unit}", style="bold"))
            for label, cells in block.lines:
                table.add_row(f"  {label}", *cells[part], end_section=label == block.lines[-1][0])
        yield table
