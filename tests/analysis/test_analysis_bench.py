"""The benchmark of the analysis: its run is a run, and its table says what was measured."""

from pathlib import Path

import pytest

from analysis.pipeline import analyse
from bench import analysis as bench
from bench.analysis import ANALYSES, EVERYTHING, PAGE, READ, SUMMARY, Used, lines
from bench.goals import Verdict


def test_the_run_it_makes_is_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "USERS", (1, 3))
    monkeypatch.setattr(bench, "STEP_S", 60.0)
    monkeypatch.setattr(bench, "WARMUP_S", 10.0)
    tokens = bench.make_run(tmp_path)
    found = analyse(tmp_path)
    assert found.summary.verdict.tolist() == ["valid", "valid"]
    assert found.summary.itl_p50_s.tolist() == pytest.approx([0.010, 0.010], rel=0.02)
    assert found.summary.user_tokens_per_s_p50.tolist() == pytest.approx([100, 100], rel=0.02)
    assert found.requests.output_tokens.sum() == tokens
    assert found.run.notes == ()


def test_its_table_names_what_falls_short() -> None:
    read, fast, slow, tiny = Used(1.0, 1.0, 100), Used(2.5, 2.4, 300), Used(9.0, 8.0, 2000), Used(0.5, 0.4, 90)
    found = {READ: [read] * 3, SUMMARY: [fast] * 3, PAGE: [fast] * 3, EVERYTHING: [slow] * 3}
    shown = lines(found, {side: [tiny] for side in ANALYSES}, {SUMMARY: [Used(26, 25, 900)]}, 10)
    assert [(line.measured.split()[0], line.verdict) for line in shown] == [
        ("2.5", Verdict.PASS),
        ("2.5", Verdict.PASS),
        ("9.0", Verdict.SHORT),
        ("1.00", None),
        ("2000", Verdict.SHORT),
        ("0.50", None),
        ("0.50", None),
        ("0.50", None),
        ("1.04", Verdict.PASS),
        ("900", Verdict.PASS),
    ]


def test_a_run_of_a_minute_has_windows_too(tmp_path: Path) -> None:
    bench.make_run(tmp_path, bench.MINUTE)
    found = analyse(tmp_path).summary
    assert found.window_length_s.tolist() == pytest.approx([14.25] * 4)
    assert (found.output_tokens_per_s > 0).all()


def test_a_side_in_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "USERS", (1,))
    monkeypatch.setattr(bench, "STEP_S", 3.0)
    monkeypatch.setattr(bench, "WARMUP_S", 1.0)
    bench.make_run(tmp_path)
    for side in bench.SIDES:
        used = bench.measure(side, tmp_path)
        assert used.wall_s > 0
        assert used.rss_mb > 20
    assert (tmp_path / "curve.svg").is_file()
    (tmp_path / "requests-w0.csv").write_text("broken,\n1,2,3\n")
    with pytest.raises(RuntimeError, match=r"summary failed: .*the column sent_at"):
        bench.measure(SUMMARY, tmp_path)
