"""From a run's folder to what is kept of it: the summary's own figures, and counts that add up to them."""

from pathlib import Path

import numpy as np
import pytest

from analysis import baseline, gate, kept, names, pipeline
from analysis.gate import Exit
from analysis.spread import LEAST_DF
from tests.analysis.run_on_paper import failed, health, ok, step, write_run
from tests.gate.commanding import command
from tokenswarm.record import RequestRecord

WINDOW_S = 60.0
BUDGET = "ttft_p95:+10%,tpot_p50:+5%"


def requests(factor: float = 1.0, failing: int = 0) -> list[RequestRecord]:
    """One user: a request every 0.25 s, of ten chunks."""
    rows = []
    for i in range(236):
        first = 60 * factor * (1 + 0.1 * (i * 7 % 11) / 11)
        chunks = [first + gap * (17 + i % 3) * factor for gap in range(10)]
        is_bad = i % 4 == 0 and i < 4 * failing
        rows.append(failed(f"r{i}", i / 4, 3) if is_bad else ok(f"r{i}", i / 4, chunks, user="u"))
    return rows


def folder(root: Path, name: str, factor: float = 1.0, failing: int = 0) -> Path:
    healths = [health(second) for second in range(1, 61)]
    about = {"run_id": name, "definitions_version": 1, "conditions": {"model": "m"}}
    rows = requests(factor, failing)
    return write_run(root / name, rows, [step(1, 1, 0, WINDOW_S, -0.2)], healths, WINDOW_S, **about)


def test_figures_are_the_summarys_and_counts_add_up_to_them(tmp_path: Path) -> None:
    path = folder(tmp_path, "r", failing=10)
    found = pipeline.analyse(path)
    (one,) = kept.steps(found)
    row = found.summary.iloc[0]
    for name, column in (("ttft_p95", "ttft_p95_s"), ("tpot_p50", "tpot_p50_s"), ("error_ratio", "error_ratio")):
        assert one.figures[name] == row[column]
    assert one.counts[kept.OUTPUT_TOKENS].sum() == pytest.approx(row[names.OUTPUT_TOKENS_PER_S] * WINDOW_S)
    assert one.counts[kept.COMPLETED].sum() == pytest.approx(row[names.REQUESTS_PER_S] * WINDOW_S)
    assert one.counts[kept.NOT_OK].sum() / one.counts[kept.JUDGED].sum() == pytest.approx(row[names.ERROR_RATIO])
    assert one.counts[kept.SENT].sum() == row[names.SENT]
    for metric in (names.TTFT, names.TPOT, names.E2E):
        assert len(one.samples[metric]) == row[names.count(metric)]
    gaps = one.samples[names.ITL]
    weight = len(gaps) if gaps.weight is None else gaps.weight.sum()
    assert weight == pytest.approx(row[names.count(names.ITL)])
    assert np.isin(one.samples[names.TTFT].cell, np.arange(60)).all()


def test_errors_of_the_server_do_not_make_the_client_invalid(tmp_path: Path) -> None:
    (one,) = kept.steps(pipeline.analyse(folder(tmp_path, "r", failing=40)))
    assert (one.verdict, one.client_verdict == "invalid") == ("invalid", False)


def test_from_folder_to_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    for name, factor in (("base", 1.0), ("same", 1.0), ("slow", 1.4)):
        folder(results, name, factor)
    assert command("baseline", "results/base", "--name", "main") == 0
    assert "1 run in 'main'" in capsys.readouterr().out
    assert command("gate", "same", "--base", "main", "--budget", BUDGET) == Exit.PASS  # by its name alone
    assert command("gate", "results/slow", "--base", "main", "--budget", BUDGET) == Exit.FAIL
    assert {path.name for path in (results / "slow").glob("gate.*")} == {"gate.json", "gate.md", "gate.xml"}
    assert command("gate", "results/none", "--base", "main", "--budget", BUDGET) == Exit.INVALID
    assert command("gate", "", "--base", "main") == Exit.WRONG_USE
    assert command("baseline", "results/same", "--name", "main") == 0
    assert "2 runs in 'main'" in capsys.readouterr().out


def test_a_baseline_is_of_one_thing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "baselines"
    path = folder(tmp_path, "a")
    other = folder(tmp_path, "b")
    text = (other / "run.json").read_text().replace('"model": "m"', '"model": "n"')
    (other / "run.json").write_text(text)
    assert command("baseline", path, "--name", "main", "--baselines", root) == 0
    assert command("baseline", other, "--name", "main", "--baselines", root) == Exit.INVALID
    assert "model: m in the baseline, n in this run" in capsys.readouterr().err
    assert command("baseline", path, "--name", "a/b", "--baselines", root) == Exit.WRONG_USE


def test_calibrate_measures_what_runs_differ_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "baselines"
    factors = (1.0, 1.05, 1.05**2)
    folders = [folder(tmp_path, f"c{i}", factor) for i, factor in enumerate(factors)]
    assert command("calibrate", *folders[:2], "--name", "main", "--baselines", root) == Exit.WRONG_USE
    twice = [*folders[:2], folders[0]]
    assert command("calibrate", *twice, "--name", "main", "--baselines", root) == Exit.WRONG_USE
    assert command("calibrate", *folders, "--name", "main", "--baselines", root, "--budget", BUDGET) == 0
    spread = baseline.read_spread((root / "main" / baseline.CALIBRATION).read_text(), "x")
    assert spread["tpot_p50"].sd == pytest.approx(np.log(1.05), rel=0.05)
    assert spread["tpot_p50"].df == pytest.approx(LEAST_DF, rel=0.1)
    assert command("baseline", folders[0], "--name", "main", "--baselines", root) == 0
    found = gate.hold(
        baseline.read("main", root), gate.keep(folders[2]), gate.Asked(budgets=gate.budgets.parse(BUDGET))
    )
    assert found.exit_code is Exit.INCONCLUSIVE  # 10 % more, on a machine that differs by 5 % from run to run
    assert not any("is assumed" in note for note in found.notes)
    equal = [folder(tmp_path, f"e{i}") for i in range(3)]
    assert command("calibrate", *equal, "--name", "quiet", "--baselines", root) == 0
    assert "±0.25%" in capsys.readouterr().out
