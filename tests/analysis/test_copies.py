"""Files that say things twice, or things of another run; a run.json that somebody edited; steps that cannot be."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from run_on_paper import T0, failed, health, lines, ok, step, write_run

from analysis import compare, compare_report, findings, report, report_markdown, table
from analysis.__main__ import main
from analysis.errors import RunError
from analysis.load import load
from analysis.pipeline import analyse, read
from tokenswarm.record import HealthRecord, RequestRecord, StepRecord

ROWS = [ok("a", 1, [50, 60], tokens=2), ok("b", 2, [40]), ok("c", 3, [30, 60, 90])]


def run_of(folder: Path, **more: Any) -> Path:
    return write_run(folder, ROWS, ended_at=T0 + 10, **more)


def test_a_copied_file_doubles_no_figure(tmp_path: Path) -> None:
    before = analyse(run_of(tmp_path)).summary
    shutil.copy(tmp_path / "requests-w1.csv", tmp_path / "requests-w1 (copy).csv")
    found = analyse(tmp_path)
    assert found.summary.equals(before)
    assert found.run.chunks.of(2).tolist() == [30_000, 60_000, 90_000]
    assert "3 requests were there twice and count once" in found.run.notes


def test_part_of_a_copy_is_left_out(tmp_path: Path) -> None:
    run_of(tmp_path)
    (tmp_path / "requests-w2.csv").write_text(lines(RequestRecord, [ROWS[0], ok("d", 4, [10])]))
    run = read(tmp_path)
    assert run.requests.request_id.tolist() == ["a", "b", "c", "d"]
    assert [run.chunks.of(i).tolist() for i in (0, 1, 3)] == [[50_000, 60_000], [40_000], [10_000]]
    assert "1 request was there twice and counts once" in run.notes


def test_an_id_that_stands_for_two_requests_stays_two(tmp_path: Path) -> None:
    run_of(tmp_path)
    (tmp_path / "requests-w2.csv").write_text(lines(RequestRecord, [ok("a", 7, [50, 60])]))
    assert len(read(tmp_path).requests) == 4


def test_a_step_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    run_of(tmp_path)
    path = tmp_path / "steps.csv"
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    found = analyse(tmp_path)
    assert found.summary.step.tolist() == [1]
    assert found.run.notes == ("1 step was there twice and counts once",)


@pytest.mark.parametrize("sent_s", [-5000, 3600])
def test_requests_of_another_time_are_said(tmp_path: Path, sent_s: float) -> None:
    run_of(tmp_path)
    before = analyse(tmp_path).summary
    (tmp_path / "requests-w2.csv").write_text(lines(RequestRecord, [ok("x", sent_s, [10]), ok("y", sent_s + 1, [10])]))
    found = analyse(tmp_path)
    assert found.run.notes == ("2 requests of another time: another run's, or of a client whose clock is off",)
    assert found.summary.requests_sent.equals(before.requests_sent)


@pytest.mark.parametrize("value", ["x", 5, [1, "a"], True, "<b>"])
@pytest.mark.parametrize("name", ["scenario", "slos", "conditions", "options", "clients", "versions"])
def test_what_is_no_object_is_named(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(RunError, match=rf"run\.json: expected {name} to be an object, found .*; mend the file"):
        load(run_of(tmp_path, **{name: value}))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"state": ["complete"]}, 'state to be a text, found ["complete"]'),
        ({"run_id": {"a": 1}}, "run_id to be a text"),
        ({"started_at": "soon"}, 'started_at to be epoch seconds, found "soon"'),
        ({"started_at": 1e308}, "started_at to be epoch seconds"),
        ({"scenario": {"step_time_s": "1m"}}, 'scenario.step_time_s to be a number, found "1m"'),
        ({"scenario": {"steps": "1,5"}}, "scenario.steps to be a list of whole numbers"),
        ({"scenario": {"steps": [1, "b"]}}, "scenario.steps to be a list of whole numbers"),
        ({"slos": {"ttft_p95": "500ms"}}, 'slos.ttft_p95 to be a number, found "500ms"'),
        ({"clients": {"w1": {"clock_offset_s": "ahead"}}}, 'clients.w1.clock_offset_s to be a number, found "ahead"'),
        ({"clients": {"w1": 5}}, "clients.w1 to be an object"),
    ],
)
def test_a_wrong_value_is_one_sentence(
    tmp_path: Path, more: dict[str, Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["summary", str(run_of(tmp_path, **more))]) == 2
    said = capsys.readouterr().err
    assert f"run.json: expected {words}" in said
    assert said.count("\n") == 1


def test_what_nobody_said_is_no_error(tmp_path: Path) -> None:
    run_of(tmp_path)
    info = json.loads((tmp_path / "run.json").read_text())
    for name in info:
        (tmp_path / "run.json").write_text(json.dumps(info | {name: None}))
        found = analyse(tmp_path)
        report.html(found, findings.findings(found))
    (tmp_path / "run.json").write_text("{}")
    found = analyse(tmp_path)
    report.html(found, findings.findings(found))


def test_a_step_without_users_is_named(tmp_path: Path) -> None:
    run_of(tmp_path)
    (tmp_path / "steps.csv").write_text(lines(StepRecord, [step(3, 0, 0, 10)]))
    with pytest.raises(RunError, match=r"steps\.csv: step 3 has 0 target_users, and a step has 1 or more"):
        analyse(tmp_path)


@pytest.mark.parametrize(("settled_s", "ended_s", "started_s"), [(-5, 10, 0), (2, -1, 0)])
def test_instants_out_of_order_are_no_window(
    tmp_path: Path, settled_s: float, ended_s: float, started_s: float
) -> None:
    run_of(tmp_path)
    (tmp_path / "steps.csv").write_text(lines(StepRecord, [step(1, 1, settled_s, ended_s, started_s)]))
    row = analyse(tmp_path).summary.iloc[0]
    assert (row.verdict, row.reasons) == ("invalid", "no steady window: its instants are out of order")


@pytest.mark.parametrize("column", ["output_tokens", "prompt_tokens", "cached_tokens", "lag_max_us"])
def test_a_count_below_zero_is_flagged(tmp_path: Path, column: str) -> None:
    rows = [ok(f"r{i}", i / 20, [30, 60]) for i in range(199)] + [ok("wrong", 9.95, [10, 20], **{column: -3})]
    row = analyse(write_run(tmp_path, rows)).summary.iloc[0]
    assert row.verdict == "suspect"
    assert "impossible times or counts in 1 of 200 rows" in row.reasons


@pytest.mark.parametrize("column", ["cpu_ratio", "users", "loop_lag_max_us", "clock_step_us", "stolen_ratio"])
def test_health_that_lacks_a_column_holds_nothing_against_a_step(tmp_path: Path, column: str) -> None:
    rows = [ok(f"r{i}", i / 10, [30, 60, 100]) for i in range(100)]
    run = write_run(tmp_path, rows, healths=[health(second) for second in range(1, 11)])
    text = lines(HealthRecord, [health(second) for second in range(1, 11)])
    (run / "health-w1.csv").write_text(text.replace(column, f"{column}_x"))
    assert "0.0 users" not in analyse(run).summary.reasons[0]


STEERS = "m\x1b[31mred\x1b[0m \u202e rtl \x07 \x9b31m\nnext"


def test_no_text_of_others_steers_a_terminal(tmp_path: Path) -> None:
    """Names and conditions of run.json, errors, names of workers: in the terminal, the findings, both reports."""
    rows = [failed(f"f{i}", i / 10, 5, detail=STEERS, worker=STEERS) for i in range(50)]
    rows += [ok(f"o{i}", i / 10, [5, 9], worker=STEERS) for i in range(50)]
    about = {
        "model": STEERS,
        "target": STEERS,
        "run_id": STEERS,
        "slos": {STEERS: 1},
        "conditions": {STEERS: STEERS, "x": None},
    }
    write_run(tmp_path, rows, [step(1, 1, 0, 10)], [health(second, STEERS) for second in range(3)], **about)
    found = analyse(tmp_path)
    told = findings.findings(found)
    texts = [one.text for one in told]
    texts.append(table.render(found.summary, found.requests, found.run, 120, findings=told))
    texts += [report_markdown.render(found, told), report.html(found, told).split("<script")[0]]
    texts.append(compare_report.text(compare.compared([tmp_path, tmp_path]), 120))
    for text in texts:
        assert not {sign for sign in "\x1b\x07\x9b\u202e" if sign in text}, text
