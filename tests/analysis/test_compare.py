"""Runs beside each other: what differs first, ratios at equal users, and no claim where intervals overlap."""

import json
from pathlib import Path

import pytest
from run_on_paper import failed, health, ok, step, write_run

from analysis import compare, compare_report
from analysis.__main__ import main

PNG = b"\x89PNG\r\n\x1a\n"


def run_at(folder: Path, speed: float = 1, spread: int = 7, users: tuple[int, ...] = (1, 5), **about: object) -> Path:
    """Steps of 10 s whose times are `speed` times those of the plain run."""
    rows, steps, healths = [], [], []
    for number, count in enumerate(users):
        start = number * 10
        for i in range(100):
            times = [speed * (30 + count + i % spread), speed * (60 + i % spread), speed * (88 + spread)]
            rows.append(ok(f"{number}-{i}", start + i / 10, times, user=f"u{i % count}"))
        steps.append(step(number + 1, count, start, start + 10, start - 0.2))
        healths += [health(start + second, users=count) for second in range(1, 11)]
    known = {"run_id": folder.name, "conditions": {"gpu": "L4", "engine": None}, "definitions_version": 1}
    return write_run(folder, rows, steps, healths, **known | about)


def figure(runs: compare.Runs, label: str) -> dict[int, list[compare.Cell]]:
    (found,) = [one for one in compare.figures(runs) if one.label == label]
    return dict(found.rows)


def test_conditions_that_differ_are_named_first(tmp_path: Path) -> None:
    a = run_at(tmp_path / "a")
    b = run_at(tmp_path / "b", conditions={"gpu": "A10", "engine": "vllm"}, model="other")
    runs = compare.compared([a, b])
    found = {one.name: one.values for one in compare.differences(runs)}
    assert found == {"model": ["m", "other"], "gpu": ["L4", "A10"], "engine": [None, "vllm"]}
    text = compare_report.text(runs, 100)
    assert text.index("gpu") < text.index("TTFT p50")
    page = compare_report.html(runs)
    assert page.index("A10") < page.index("Curves against concurrency")


def test_equal_conditions_are_said_to_be(tmp_path: Path) -> None:
    runs = compare.compared([run_at(tmp_path / "a"), run_at(tmp_path / "b")])
    assert compare.differences(runs) == []
    assert "No condition that is known differs." in compare_report.text(runs, 100)


def test_other_definitions_are_flagged_before_everything(tmp_path: Path) -> None:
    runs = compare.compared([run_at(tmp_path / "a"), run_at(tmp_path / "b", definitions_version=0, model="other")])
    assert compare.differences(runs)[0].name == "definitions version"
    assert compare_report.text(runs, 100).startswith("Recorded under different metric definitions (a: 1, b: 0).")
    assert "different metric definitions" in compare_report.html(runs)


def test_ratios_are_to_the_first_run(tmp_path: Path) -> None:
    runs = compare.compared([run_at(tmp_path / "a"), run_at(tmp_path / "b", 2), run_at(tmp_path / "c", 0.75)])
    base, slow, fast = figure(runs, "E2E p50")[1]
    assert (base.text, base.ratio) == ("95.0", "")
    assert (slow.text, slow.ratio, slow.tone) == ("190", "× 2.00", "worse")
    assert (fast.ratio, fast.tone) == ("× 0.75", "better")
    _, slow, fast = figure(runs, "Tokens/s per user p50")[1]
    assert (slow.tone, fast.tone) == ("worse", "better")


def test_no_difference_is_claimed_where_intervals_overlap(tmp_path: Path) -> None:
    runs = compare.compared([run_at(tmp_path / "a", spread=50), run_at(tmp_path / "b", 1.02, spread=50)])
    assert all(one.summary.verdict.iloc[0] != "invalid" for one in runs.analyses)
    _, other = figure(runs, "TTFT p50")[1]
    assert other.ratio.startswith("~ × 1.0")
    assert other.tone == ""


def test_an_invalid_step_is_no_evidence_of_a_difference(tmp_path: Path) -> None:
    b = run_at(tmp_path / "b", 2)
    lines = (b / "health-w1.csv").read_text().splitlines()
    (b / "health-w1.csv").write_text("\n".join(line.replace(",0.100000,", ",0.990000,") for line in lines) + "\n")
    runs = compare.compared([run_at(tmp_path / "a"), b])
    assert set(runs.analyses[1].summary.verdict) == {"invalid"}
    _, other = figure(runs, "E2E p50")[1]
    assert (other.ratio, other.tone) == ("~ × 2.00", "")
    assert "b: No step is valid evidence" in compare_report.text(runs, 100)


def test_only_equal_users_stand_beside_each_other(tmp_path: Path) -> None:
    runs = compare.compared([run_at(tmp_path / "a", users=(1, 5)), run_at(tmp_path / "b", users=(5, 8))])
    assert list(figure(runs, "TTFT p50")) == [5]
    apart = compare.compared([run_at(tmp_path / "c", users=(1,)), run_at(tmp_path / "d", users=(8,))])
    assert compare.figures(apart) == []
    assert "No two runs held the same number of users" in compare_report.text(apart, 80)
    assert "only the curves compare" in compare_report.html(apart)


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    a, b = run_at(tmp_path / "x" / "a", run_id="same"), run_at(tmp_path / "y" / "b", run_id="same")
    assert compare.compared([a, b]).labels == ["a", "b"]
    assert compare.compared([a, a]).labels == ["a (1)", "a (2)"]


def test_a_dead_run_beside_a_sound_one(tmp_path: Path) -> None:
    dead = write_run(tmp_path / "dead", [failed("a", 1, 3)], [step(1, 1, 0, 10)], run_id="dead")
    runs = compare.compared([run_at(tmp_path / "a"), dead])
    _, other = figure(runs, "TTFT p50")[1]
    assert (other.text, other.ratio) == ("–", "")
    assert "dead" in compare_report.html(runs)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    hostile = "<b class=evil>&</b>"
    a, b = run_at(tmp_path / "a"), run_at(tmp_path / "b", 1.5, run_id=hostile)
    assert main(["compare", str(a), str(b)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-2:] == [str(b / "compare.html"), str(b / "compare.png")]
    assert max(map(len, out[:-2])) <= 100
    assert (b / "compare.png").read_bytes().startswith(PNG)
    page = (b / "compare.html").read_text()
    assert hostile not in page
    assert "&lt;b class=evil&gt;" in page
    assert len(page.encode()) <= 2_000_000
    assert json.loads((b / "run.json").read_text())["run_id"] == hostile
