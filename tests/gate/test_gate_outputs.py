"""What a person, a pull request and a pipeline get to see; and that none of them is told of a pass that was none."""

import json
import math
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from analysis import baseline, gate, gate_files, gate_text
from analysis.gate import Exit, Gate
from tests.gate.commanding import command
from tests.gate.kept_on_paper import EVEN, T0, asked, run, step
from tests.gate.kept_on_paper import baseline as of

BUDGETS = "ttft_p95:+10%,tpot_p50:+5%,output_tokens_per_s:-5%,error_ratio:+1pp"
SLOW = step(tpot_s=(0.03 + 0.001 * EVEN) * 1.15)


def held(now: baseline.RunKept, budgets: str = BUDGETS) -> Gate:
    return gate.hold(of(), now, asked(budgets))


def test_a_slower_decode_is_named_on_the_first_line() -> None:
    text = gate_text.render(held(run(SLOW)), 110, now_s=T0)
    assert text.splitlines()[0] == "FAIL: tpot_p50 at 20 users (decode is slower)"
    first_row = next(line for line in text.splitlines() if "tpot_p50" in line and "ms" in line)
    assert all(part in first_row for part in ("30.5 ms", "35.1 ms", "+15.0 %", "+5%", "fail"))
    assert text.index("tpot_p50   ") < text.index("ttft_p95   ")  # what failed comes first


@pytest.mark.parametrize("width", [60, 80, 110, 200])
def test_the_table_keeps_within_the_terminal(width: int) -> None:
    for now in (run(), run(SLOW), run(step(verdict="invalid", client_verdict="invalid", reasons="x" * 300))):
        assert max(map(len, gate_text.render(held(now), width, now_s=T0).splitlines())) <= width


def test_doubts_are_said() -> None:
    text = gate_text.render(held(run(conditions={"gpu": None})), 300, now_s=T0)
    assert "unknown, so not known to be equal: " in text
    assert "one baseline run" in text
    assert "speed alone was judged" in gate_text.render(
        gate.hold(of(), run(), asked(BUDGETS, quality_budgets=_quality())), 300
    )


def _quality() -> list[object]:
    from analysis.gate_command import quality_budgets

    return quality_budgets("")


def test_a_refusal_says_what_to_allow() -> None:
    text = gate_text.render(held(run(model="m2", conditions={"model": "m2"})), 200, now_s=T0)
    assert text.startswith("INVALID: nothing was compared")
    assert "model: m1 in the baseline, m2 in this run" in text
    assert "--allow model" in text


def test_markdown_is_a_table_whose_cells_hold() -> None:
    text = gate_text.markdown(held(run(SLOW, run_id="a|b<c>")), now_s=T0)
    assert text.startswith("### ❌ Gate: FAIL: tpot_p50")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1
    assert "a\\|b&lt;c&gt;" in text


def test_junit_counts_what_it_holds() -> None:
    for now in (run(), run(SLOW), run(step(ttft_s=EVEN[:10]), SLOW), run(seed=2)):
        found = held(now)
        suite = Xml.fromstring(gate_files.junit(found))
        failures, errors = (len(suite.findall(f"testcase/{kind}")) for kind in ("failure", "error"))
        assert (int(suite.attrib["tests"]), int(suite.attrib["failures"]), int(suite.attrib["errors"])) == (
            len(suite.findall("testcase")),
            failures,
            errors,
        )
        assert (failures + errors == 0) == (found.exit_code is Exit.PASS)
        assert (failures > 0) == (found.exit_code is Exit.FAIL)


def test_junit_bears_any_text() -> None:
    odd = step(verdict="invalid", client_verdict="invalid", reasons='a\x00b\x1b<"&\ud800')
    text = gate_files.junit(held(run(odd)))
    assert Xml.fromstring(text.encode("utf-8", "replace")).find("testcase/error") is not None


HOSTILE = "m\x1b[31m|`x` [a](http://b) **c** <img src=d>\u202e\r\n# e\x00\ud800\x9b"


def test_names_that_others_chose_are_text_everywhere() -> None:
    """A server may call its model what it likes."""
    found = held(run(model=HOSTILE, conditions={"model": HOSTILE}))
    terminal = gate_text.render(found, 200, now_s=T0)
    assert all(line.isprintable() for line in terminal.splitlines())
    page = gate_text.markdown(found, now_s=T0)
    assert all(line.isprintable() for line in page.splitlines())
    assert "\\|\\`x\\` \\[a\\](http://b) \\*\\*c\\*\\* &lt;img src=d&gt;" in page
    assert not any(line.startswith("# e") for line in page.splitlines())
    assert Xml.fromstring(gate_files.junit(found)).find("testcase/error") is not None
    (differs,) = json.loads(gate_files.to_json(found).encode("utf-8", "backslashreplace"))["differs"]
    assert differs["run"] == HOSTILE


@pytest.mark.parametrize("now", [run(), run(SLOW), run(step(ttft_s=EVEN[:10])), run(seed=2)])
def test_the_last_line_is_the_exit_code(now: baseline.RunKept) -> None:
    """`make` ends with 2 whatever it was."""
    found = held(now)
    last = gate_text.render(found, 110, now_s=T0).splitlines()[-1]
    assert last == f"exit code {int(found.exit_code)} ({found.verdict})"


def test_one_figure_is_one_figure() -> None:
    assert gate_text.headline(held(run(), "ttft_p95:+10%")) == "PASS: the one figure is within its budget"
    assert gate_text.headline(held(run())) == "PASS: all 4 figures are within budget"


def test_json_is_standard_and_whole() -> None:
    found = held(run(step(ttft_s=EVEN[:10] + 0.1), run_id="r2"))
    plain = json.loads(gate_files.to_json(found), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (plain["verdict"], plain["exit_code"], plain["run"]) == ("invalid", 4, "r2")
    ttft = next(one for one in plain["figures"] if one["figure"] == "ttft_p95")
    assert (ttft["run"], ttft["verdict"], ttft["gating"]) == (None, "invalid", True)
    tpot = next(one for one in plain["figures"] if one["figure"] == "tpot_p50")
    assert tpot["low"] < tpot["change"] < tpot["high"] < tpot["limit"]
    assert math.isclose(tpot["base"], 0.0305, rel_tol=0.02)


def test_files_are_written_also_where_there_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out" / "gate.xml"
    code = command("gate", tmp_path / "nothing", "--base", "main", "--baselines", tmp_path, "--junit", out)
    assert code == Exit.INVALID
    assert Xml.fromstring(out.read_text()).attrib["errors"] == "1"
    assert capsys.readouterr().out.startswith("INVALID")


@pytest.mark.parametrize(
    "words",
    [
        ["--budget", "ttft:+10%"],
        ["--budget", "quality_empty:+5pp"],
        ["--quality-budget", "ttft_p95:+10%"],
        ["--at", "five"],
        ["--spread", "much"],
        ["--spread", "nan%"],
        ["--base", "../main"],
    ],
)
def test_wrong_use_is_one_sentence(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    baseline.write(run(), "main", tmp_path)
    base = [] if "--base" in words else ["--base", "main"]
    assert command("gate", tmp_path / "r", *base, "--baselines", tmp_path, *words) == Exit.WRONG_USE
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
