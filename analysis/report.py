"""report.html and report.md of one run: what was found, in words, then in plots and tables."""

import base64
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from analysis import (
    names,
    notices,
    page,
    report_curves,
    report_facts,
    report_series,
    report_server,
    report_spread,
    report_tables,
    report_theme,
    report_timelines,
)
from analysis.finding import Finding, FindingKind, Severity
from analysis.health import Verdict
from analysis.pipeline import Analysis
from analysis.run_state import told
from analysis.server_state import in_windows
from analysis.table import PLAIN
from analysis.verdict_words import named
from tokenswarm.runfolder import REQUESTS_OF_ALL, STEPS, SUMMARY
from tokenswarm.server_row import FILE as SERVER

HTML, MARKDOWN = "report.html", "report.md"
LIMIT_BYTES = 2_000_000  # of report.html, all included
EMBED_BYTES = 300_000  # of one file: larger ones stay beside the report


@dataclasses.dataclass(frozen=True, slots=True)
class Download:
    name: str
    href: str
    note: str
    embedded: bool


def write(found: Analysis, findings: Sequence[Finding]) -> list[Path]:
    """Writes both files into the run's folder, each whole or not at all. summary.csv must be there already."""
    from analysis import report_markdown

    folder = found.run.folder
    texts = {HTML: html(found, findings), MARKDOWN: report_markdown.render(found, findings)}
    for name, text in texts.items():
        part = folder / f"{name}.part"
        part.write_text(text, encoding="utf-8")
        os.replace(part, folder / name)
    return [folder / name for name in texts]


def html(found: Analysis, findings: Sequence[Finding]) -> str:
    """The page; files of requests are embedded as far as LIMIT_BYTES allows."""
    context, plots = _context(found, findings)
    drawn = page.scripts(plots)

    def page_with(room: int) -> str:
        files = {"downloads": downloads(found.run.folder, room)}
        return page.render("report.html", drawn, len(found.steps), context | files)

    bare = page_with(0)
    room = LIMIT_BYTES - len(bare.encode()) - 1000
    return page_with(room) if any(_large(found.run.folder)) and room > 0 else bare


def _context(found: Analysis, findings: Sequence[Finding]) -> tuple[dict[str, Any], list[report_curves.Plot]]:
    summary, requests, run = found.summary, found.requests, found.run
    curves, frontier = report_curves.curves(summary), report_curves.frontier(summary)
    timeline = report_series.timeline(requests, run.chunks, found.steps)
    timelines = report_timelines.timelines(timeline, requests, found.steps)
    timelines += report_server.plots(run.server, requests, found.steps, timelines)
    spreads = report_spread.spreads(requests, run.chunks, found.steps)
    plots = [*curves, *([frontier] if frontier else []), *timelines, *spreads]
    loads = in_windows(run.server, found.steps)
    state = told(run.info, len(found.steps))  # stands above the findings
    colors = report_theme.step_colors(len(found.steps))
    context = {
        "title": title(run.info),
        "model": str(run.info.get("model") or "Unknown model"),
        "subtitle": subtitle(run.info),
        "state": state,
        "doubtful": named(summary),
        "warning": report_facts.warning(summary),
        "findings": [
            (_tone(one), one.text) for one in findings if one.kind is not FindingKind.VERDICT and one.text != state
        ],
        "tiles": report_facts.tiles(summary, requests),
        "verdicts": report_facts.verdicts(summary),
        "any_invalid": bool(len(summary) and (summary[names.VERDICT] == Verdict.INVALID).any()),
        "curves": curves,
        "frontier": frontier,
        "timelines": timelines,
        "spreads": spreads,
        "step_legend": [
            (report_spread.tag(index), report_facts.people(users), colors[index])
            for index, users in enumerate(found.steps.target_users)
        ],
        "sections": [*report_tables.sections(summary), *report_tables.server(loads)] if len(summary) else [],
        "columns": _columns(summary),
        "errors": report_facts.errors(requests),
        "cautions": report_facts.cautions(requests),
        "conditions": report_facts.conditions(run.info),
        "setup": report_facts.setup(run.info),
        "notes": [line.plain for line in notices.footnotes(summary, run, any_withheld=False)],
    }
    return context | {"toc": _toc(context)}, plots


def _columns(summary: Any) -> list[tuple[str, str, str]]:
    return [
        (str(row[names.TARGET_USERS]), PLAIN.text(row[names.OBSERVED_CONCURRENCY]), str(row[names.VERDICT]))
        for row in summary.to_dict("records")
    ]


def _toc(context: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The sections that this report has."""
    some = [
        ("curves", "Curves", context["curves"]),
        ("time", "Over the run", context["timelines"]),
        ("spread", "Within steps", context["spreads"]),
        ("table", "Figures", context["sections"]),
        ("errors", "Errors", context["errors"] or context["cautions"]),
    ]
    shown = [(key, name) for key, name, content in some if content]
    return [
        ("findings", "Findings"),
        ("verdicts", "Verdicts"),
        *shown,
        ("conditions", "Conditions"),
        ("downloads", "Data"),
    ]


def title(info: Mapping[str, Any]) -> str:
    """What a browser's tab and a history entry say."""
    return " · ".join(str(part) for part in (info.get("model"), info.get("run_id"), "TokenSwarm") if part)


def subtitle(info: Mapping[str, Any]) -> list[str]:
    """Target, load, time and run."""
    scenario = info.get("scenario") or {}
    hold_s = scenario.get("step_time_s")
    started, ended = info.get("started_at"), info.get("ended_at")
    known = isinstance(started, int | float) and isinstance(ended, int | float)
    lasted = f"{max((ended - started) / 60, 1):.0f} min" if known and ended > started else ""  # type: ignore[operator]
    parts = [
        info.get("target"),
        f"{scenario.get('name')}, {hold_s:g} s a step" if isinstance(hold_s, int | float) else scenario.get("name"),
        report_facts.moment(started),
        lasted,
        f"run {info['run_id']}" if info.get("run_id") else None,
    ]
    return [str(part) for part in parts if part]


def _tone(finding: Finding) -> str:
    """The colour at a finding's side."""
    return "doubt" if finding.severity is Severity.WARNING else "plain"


def _large(folder: Path) -> list[Path]:
    """The files that may be too large for the page."""
    return [*folder.glob(SERVER), *sorted(folder.glob(REQUESTS_OF_ALL))]


def downloads(folder: Path, room: int) -> list[Download]:
    """summary.csv and steps.csv inside the page; server.csv and requests too while they are small and `room` bytes last."""
    found = []
    for name in (SUMMARY, STEPS):
        path = folder / name
        if path.is_file():
            found.append(_embedded(path))
    for path in _large(folder):
        size = path.stat().st_size
        cost = size * 4 // 3 + 300
        if size <= EMBED_BYTES and cost <= room:
            room -= cost
            found.append(_embedded(path))
        else:
            found.append(Download(path.name, f"./{quote(path.name)}", f"{_size(size)}, beside this file", False))
    return found


def _embedded(path: Path) -> Download:
    content = path.read_bytes()
    encoded = base64.b64encode(content).decode()
    return Download(path.name, f"data:text/csv;charset=utf-8;base64,{encoded}", _size(len(content)), True)


def _size(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    exponent = min(int(np.log10(count) // 3), 3)
    return f"{count / 1000**exponent:.3g} {('B', 'kB', 'MB', 'GB')[exponent]}"
