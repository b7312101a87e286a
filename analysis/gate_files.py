"""The gate's outcome for programs: JSON, and JUnit XML in which each figure of each step is a test case."""

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

from analysis import gate_text
from analysis.gate import Gate
from analysis.printable import printable
from analysis.verdicts import Judged, Verdict

JSON, MARKDOWN, JUNIT = "gate.json", "gate.md", "gate.xml"


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain(one: Judged) -> dict[str, Any]:
    return {
        "where": one.where,
        "figure": one.budget.name,
        "unit": one.budget.metric.unit,
        "better": one.budget.metric.better,
        "gating": one.gating,
        "verdict": one.verdict.value if one.gating else None,
        "reason": one.reason or None,
        "improved": one.improved,
        "budget": str(one.budget) if one.gating else None,
        "base": _known(one.base),
        "run": _known(one.run),
        "change_in": "difference" if one.in_points else "share",
        **{name: _known(getattr(one, name)) for name in ("change", "low", "high", "limit")},
    }


def as_dict(gate: Gate) -> dict[str, Any]:
    """All of it, numbers in base units; unknown is null."""
    found = gate.comparison
    return {
        "verdict": gate.verdict.value,
        "exit_code": int(gate.exit_code),
        "headline": gate_text.headline(gate),
        "run": gate.run.run_id if gate.run else None,
        "baseline": {
            "name": gate.baseline_name,
            "runs": [
                {"run_id": one.run_id, "started_at": one.started_at, "hash": one.hash}
                for one in (gate.baseline.runs if gate.baseline else ())
            ],
        },
        "refusals": list(gate.refusals),
        "differs": [{"name": one.name, "base": one.base, "run": one.run} for one in (found.refused if found else ())],
        "allowed": [one.name for one in (found.allowed if found else ())],
        "unknown": list(found.unknown if found else ()),
        "figures": [_plain(one) for one in (*gate.judged, *gate.shown)],
        "notes": list(gate_text.warnings(gate)),
    }


def to_json(gate: Gate) -> str:
    return json.dumps(as_dict(gate), indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def junit(gate: Gate) -> str:
    """A failing figure is a failure; one that is not decided or cannot be judged is an error: neither is a pass."""
    suite = Xml.Element("testsuite", name=f"gate against {printable(gate.baseline_name)}")
    for one in gate.judged:
        name = f"{one.budget.name} within {one.budget}"
        case = Xml.SubElement(suite, "testcase", classname=f"gate.{printable(one.where)}", name=printable(name))
        if one.verdict is not Verdict.PASS:
            kind = "failure" if one.verdict is Verdict.FAIL else "error"
            text = " ".join(
                filter(None, [gate_text.change(one, one.change), f"({gate_text.interval(one)}):", one.reason])
            )
            Xml.SubElement(case, kind, type=one.verdict.value, message=printable(text))
        elif one.reason or one.improved:
            Xml.SubElement(case, "system-out").text = printable(
                one.reason or f"better: {gate_text.change(one, one.change)}"
            )
    for why in gate.refusals:
        case = Xml.SubElement(suite, "testcase", classname="gate", name="comparable")
        Xml.SubElement(case, "error", type=gate.verdict.value, message=printable(why))
    cases = suite.findall("testcase")
    if not cases:  # an empty suite reads as a pass
        case = Xml.SubElement(suite, "testcase", classname="gate", name="evidence")
        Xml.SubElement(case, "error", type=gate.verdict.value, message="nothing was judged")
    for count, kind in (("failures", "failure"), ("errors", "error")):
        suite.set(count, str(len(suite.findall(f"testcase/{kind}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    Xml.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(suite, encoding="unicode") + "\n"


def write(
    gate: Gate, folder: Path, junit_path: Path | None, markdown_path: Path | None, json_path: Path | None
) -> None:
    """Into the run's folder, where there is one, or where each was asked for."""
    wanted = (
        (junit_path, JUNIT, junit(gate)),
        (markdown_path, MARKDOWN, gate_text.markdown(gate)),
        (json_path, JSON, to_json(gate)),
    )
    for asked, name, text in wanted:
        if asked is not None or folder.is_dir():
            path = asked or folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
