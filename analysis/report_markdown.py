"""The report as GitHub-flavoured Markdown for a pull request: findings, verdicts, one table, errors, conditions."""

import re
from collections.abc import Iterable, Sequence

import pandas as pd

from analysis import names, report_facts
from analysis.finding import Finding, FindingKind
from analysis.health import Verdict
from analysis.pipeline import Analysis
from analysis.report_tables import PERCENT
from analysis.scale import Scale
from analysis.table import PLAIN
from analysis.verdict_words import doubtful
from analysis.wording import counted, things
from tokenswarm.metrics import METRICS

MARK = {Verdict.VALID: "✅", Verdict.SUSPECT: "⚠️", Verdict.INVALID: "❌"}
MOST_ERRORS = 10
WORDS_LIMIT = 160
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!$&])")


def escaped(text: object) -> str:
    """`text` as text: on one line, no markup, no mention, no link made of it."""
    flat = " ".join(str(text).split())
    flat = _SPECIAL.sub(r"\\\1", flat)
    # a zero-width joiner is what keeps GitHub from making links and mentions of what servers say
    return re.sub(r"(?i)\b(https?|www|ftp)(?=[:.])", "\\1\u2060", flat).replace("@", "@\u2060")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """Cells must be escaped already; columns from `left` on are aligned to the right."""
    ruler = [":--" if index < left else "--:" for index in range(len(head))]
    return [f"| {' | '.join(cells)} |" for cells in (head, ruler, *rows)]


def render(found: Analysis, findings: Sequence[Finding]) -> str:
    """The whole text, with one line end at its end."""
    summary, info = found.summary, found.run.info
    model, target = (escaped(info.get(name) or f"unknown {name}") for name in ("model", "target"))
    alarm = report_facts.warning(summary)
    lines = [f"> {MARK[Verdict.INVALID]} {escaped(alarm)}", ""] if alarm else []
    lines += [f"## {model} under load", "", f"{target} · run {escaped(info.get('run_id') or 'unknown')}", ""]
    told = [one for one in findings if one.kind is not FindingKind.VERDICT]
    lines += [f"- {escaped(one.text)}" for one in told] + ([""] if told else [])
    lines += [*_verdicts(summary), ""]
    if len(summary):
        lines += [*_figures(summary), ""]
    lines += [
        f"{things(len(found.requests), 'request')} in the whole run: {report_facts.outcomes(found.requests)}.",
        "",
    ]
    lines += _errors(report_facts.errors(found.requests))
    rows = [
        [escaped(name), "*unknown*" if value is None else escaped(value)]
        for name, value in report_facts.conditions(info)
    ]
    lines += ["<details><summary>Conditions</summary>", "", *table(["Condition", "Value"], rows, 2), "", "</details>"]
    return "\n".join(lines) + "\n"


def _verdicts(summary: pd.DataFrame) -> list[str]:
    if not len(summary):
        return ["**No step was recorded.**"]
    told = [
        f"- {MARK[verdict]} **{verdict.value}** at {counted(loads)}: {escaped(reasons)}"
        for verdict, loads, reasons in doubtful(summary)
    ]
    return told or [f"{MARK[Verdict.VALID]} Every step is valid."]


def _figures(summary: pd.DataFrame) -> list[str]:
    """A row a step: load, median and tail of each latency, rates, errors."""
    head, columns = ["Users", "In flight"], [summary[names.TARGET_USERS].astype(str).tolist()]
    columns.append([PLAIN.text(value) for value in summary[names.OBSERVED_CONCURRENCY]])
    for metric in (names.TTFT, names.ITL, names.TPOT, names.E2E):
        values = [summary[names.stat(metric, which)] for which in names.QUANTILES]
        scale = Scale.of_seconds(pd.concat(values))
        head.append(f"{METRICS[metric].label} {'/'.join(names.QUANTILES)} {scale.unit}")
        columns.append([" / ".join(map(scale.text, row)) for row in zip(*values, strict=True)])
    for name, scale in (
        (names.OUTPUT_TOKENS_PER_S, PLAIN),
        (names.REQUESTS_PER_S, PLAIN),
        (names.GOODPUT_PER_S, PLAIN),
        (names.ERROR_RATIO, PERCENT),
    ):
        if name in summary:
            head.append(METRICS[name].label + (" %" if scale is PERCENT else ""))
            columns.append([scale.text(value) for value in summary[name]])
    return table(head, list(zip(*columns, strict=True)), left=0)


def _errors(found: list[report_facts.ErrorKind]) -> list[str]:
    if not found:
        return []
    rows = [
        [f"{kind.count:,}", escaped(kind.error_class), kind.status, escaped(kind.example[:WORDS_LIMIT])]
        for kind in found[:MOST_ERRORS]
    ]
    more = [f"… and {len(found) - MOST_ERRORS} more classes."] if len(found) > MOST_ERRORS else []
    return [*table(["Requests", "Class", "HTTP", "Words"], rows, 4), *more, ""]
