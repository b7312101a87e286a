"""Reasons of several steps are said once, their numbers as ranges."""

import re
from pathlib import Path

import pytest
from run_on_paper import cancelled, failed, ok, step, write_run
from steps_on_paper import a_step, table

from analysis import report, report_markdown, summary
from analysis import table as terminal
from analysis.findings import findings
from analysis.pipeline import analyse
from analysis.run_state import ended, never_begun
from analysis.verdict_words import doubtful, merged, named
from analysis.wording import things


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["1.1% of the chunks", "2.3% of the chunks", "2% of the chunks"], "1.1–2.3% of the chunks"),
        (["worker w0 was gone", "worker w0 was gone"], "worker w0 was gone"),
        (["15.2 is short of 20 users", "3 is short of 1,000 users"], "3–15.2 is short of 20–1,000 users"),
        (["no number"], "no number"),
    ],
)
def test_texts_that_differ_in_numbers_become_one(texts: list[str], said: str) -> None:
    assert merged(texts) == said


def test_each_reason_is_said_once() -> None:
    rows = [
        a_step(1, verdict="suspect", reasons="2% late; 1.5% merged"),
        a_step(5),
        a_step(20, verdict="suspect", reasons="7% late"),
        a_step(50, verdict="invalid", reasons="worker w1 was gone"),
    ]
    assert [(verdict.value, users, text) for verdict, users, text in doubtful(table(rows))] == [
        ("invalid", [50], "worker w1 was gone"),
        ("suspect", [1, 20], "2–7% late; at 1 user 1.5% merged"),
    ]
    assert named(table(rows)) == "Invalid: 50 users. Suspect: 1 and 20 users."
    assert named(table([a_step(1)])) is None
    assert named(table([])) is None


def test_how_a_run_ended() -> None:
    assert ended({}) is None
    assert ended({"state": "complete"}) is None
    assert ended({"state": "interrupted"}) == "This run was interrupted. Figures are of what was recorded."
    assert ended({"state": "lost"}) == "This run is lost. Figures are of what was recorded."
    planned = {"scenario": {"steps": [1, 5, 20]}}
    assert never_begun(planned | {"state": "interrupted"}, 1) == [5, 20]
    assert never_begun(planned | {"state": "complete"}, 1) == []
    assert never_begun({"state": "running"}, 0) == []


def test_one_is_no_plural() -> None:
    assert [things(n, "request") for n in (0, 1, 2, 1200)] == [
        "0 requests",
        "1 request",
        "2 requests",
        "1,200 requests",
    ]


NOUNS = (
    "answers|chunks|classes|errors|files|gaps|ids|objectives|percentiles|points|prompts|replicas|requests|rows|samples|"
    "seconds|steps|tokens|users|windows|workers|times"
)
WRONG = re.compile(rf"(?<![\d.,–:])1 (?:last )?(?:{NOUNS})\b(?!/)|(?<![\d.,–])1 (?:were|are|hold|have) ")


@pytest.mark.parametrize(
    "rows",
    [
        [ok("a", 1, [50], prompt_tokens=None, output_tokens=None)],
        [ok("a", 1, [50, 60]), failed("b", 2, 5)],
        [failed("b", 2, 5)],
        [cancelled("c", 3, 50)],
        [ok("a", 1, [50, 40])],
        [ok("a", 1, [50, 60]), ok("b", 2, [50, 60]), cancelled("c", 3, 50, [20])],
        [],
    ],
)
def test_no_text_says_1_requests(tmp_path: Path, rows: list) -> None:
    """One request, one failure, one step, one chunk, one sample: in the terminal, the findings and both reports."""
    scenario = {"name": "s", "steps": [1, 2], "step_time_s": 10, "warmup_s": 0}
    found = analyse(write_run(tmp_path, rows, [step(1, 1, 0, 10)], state="interrupted", scenario=scenario))
    summary.write(found.summary, tmp_path)
    told = findings(found, {"ttft_p95": 0.5, "error_ratio": 0.01}, None, 1)
    texts = [one.text for one in told] + list(found.summary.reasons) + list(found.summary.notes)
    texts += [terminal.render(found.summary, found.requests, found.run, width, findings=told) for width in (80, 120)]
    texts.append(report_markdown.render(found, told))
    page = report.html(found, told)
    texts.append(re.sub(r"<script.*?</script>|<[^>]*>", "", page, flags=re.S))
    for text in texts:
        assert not WRONG.search(text), WRONG.search(text)


def test_every_sign_of_ours_has_its_ascii() -> None:
    """Whatever stands in a text that the analysis makes; model names and server's words are escaped."""
    sources = (Path(terminal.__file__).parent).glob("*.py")
    of_texts = (
        "bend_words",
        "capacity_words",
        "cost_words",
        "distrust",
        "server_words",
        "wording",
        "verdict_words",
        "usl",
    )
    signs = {sign for path in sources if path.stem in of_texts for sign in path.read_text(encoding="utf-8")}
    odd = {sign: terminal.in_ascii(sign) for sign in signs if not sign.isascii()}
    assert odd
    assert [sign for sign, plain in odd.items() if "\\" in plain] == []
