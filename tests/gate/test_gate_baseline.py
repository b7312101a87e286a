"""Baselines as files: what is written is read again, what was touched is refused, and git can hold them."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from analysis import baseline, gate
from analysis.gate import Exit
from analysis.gate_errors import GateUsage, NoEvidence
from analysis.kept import PER_CELL, thinned
from analysis.resampling import CELLS, FINE, Samples, draws, quantiles
from tests.gate.commanding import command
from tests.gate.kept_on_paper import T0, answer, answers, asked, run, samples, step


def kept(folder: Path, *runs: baseline.RunKept) -> Path:
    for one in runs:
        baseline.write(one, "main", folder)
    return folder


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    open_ones = samples(np.linspace(0.1, 0.5, 240))
    open_ones.is_open[::7] = True
    many = thinned(samples(np.linspace(0.01, 0.05, 20_000)))
    there = run(step(samples={"ttft": open_ones, "itl": many}), answers=answers(answer("a", "é 谢谢", json=True)))
    found = baseline.read("main", kept(tmp_path, there)).runs[0]
    assert (found.info, found.answers) == (there.info, there.answers)
    (ours,), (theirs,) = there.steps, found.steps
    for name in ours.samples:
        np.testing.assert_array_equal(theirs.samples[name].cell, ours.samples[name].cell)
        np.testing.assert_array_equal(theirs.samples[name].is_open, ours.samples[name].is_open)
        np.testing.assert_allclose(theirs.samples[name].value, ours.samples[name].value, rtol=1e-3)
    assert theirs.figures == pytest.approx(ours.figures, rel=1e-5, nan_ok=True)
    for name, counts in ours.counts.items():
        np.testing.assert_allclose(theirs.counts[name], counts, rtol=1e-5)


def test_a_run_like_its_baseline_passes(tmp_path: Path) -> None:
    found = baseline.read("main", kept(tmp_path, run(run_id="released")))
    assert gate.hold(found, run(), asked("ttft_p95:+10%,tpot_p50:+5%,output_tokens_per_s:-5%")).exit_code is Exit.PASS


def test_a_run_is_not_judged_against_itself(tmp_path: Path) -> None:
    """A change that brings its own baseline would pass whatever it does."""
    found = gate.hold(baseline.read("main", kept(tmp_path, run(), run(run_id="released"))), run(), asked())
    assert found.exit_code is Exit.INVALID
    assert "no run can be judged against itself" in found.refusals[0]
    later = run(started_at=T0 + 3600)  # the same name, given again to a later run
    assert gate.hold(baseline.read("main", tmp_path), later, asked()).exit_code is Exit.PASS


def test_a_run_that_is_kept_twice_is_no_evidence(tmp_path: Path) -> None:
    """Two files of one run agree to the last digit: the machine would seem to have no noise."""
    path = baseline.write(run(), "main", tmp_path)
    (path.parent / "r copy.json").write_bytes(path.read_bytes())
    with pytest.raises(NoEvidence, match="hold the same run, r; delete one"):
        baseline.read("main", tmp_path)


def test_a_baseline_whose_lines_or_order_were_touched_is_the_same_baseline(tmp_path: Path) -> None:
    """Git on Windows ends lines otherwise, editors write a byte order mark; neither changes what was measured."""
    path = baseline.write(run(run_id="a"), "main", tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    baseline.write(run(run_id="b", started_at=T0 - 60), "main", tmp_path)
    assert [one.run_id for one in baseline.read("main", tmp_path).runs] == [
        "b",
        "a",
    ]  # oldest first, whatever the names


def test_what_cannot_be_read_is_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "bytes").mkdir()
    (tmp_path / "bytes" / "x.json").write_bytes(b"\xff\xfe{")
    (tmp_path / "folder" / "x.json").mkdir(parents=True)
    for name in ("bytes", "folder"):
        with pytest.raises(NoEvidence, match=r"x\.json cannot be read"):
            baseline.read(name, tmp_path)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"spread": []}', '{"spread": {"ttft_p95": "NaN"}}', '{"spread": {"a": -1}}']
)
def test_a_calibration_that_is_none_is_no_evidence(tmp_path: Path, text: str) -> None:
    baseline.write(run(), "main", tmp_path)
    (tmp_path / "main" / baseline.CALIBRATION).write_text(text)
    with pytest.raises(NoEvidence, match="make calibrate"):
        baseline.read("main", tmp_path)


def test_a_baseline_is_small(tmp_path: Path) -> None:
    """As large as a step can make it: every cell full."""
    values = np.random.default_rng(1).lognormal(0, 1, 40_000)
    full = step(samples=dict.fromkeys(("ttft", "ttfo", "itl", "tpot", "e2e"), thinned(samples(values))))
    path = baseline.write(run(full), "main", tmp_path)
    assert len(full.samples["ttft"]) == PER_CELL * CELLS
    assert path.stat().st_size < 150_000


@pytest.mark.parametrize("how", ["edit", "cut", "empty", "format", "list"])
def test_a_file_that_was_touched_is_no_evidence(tmp_path: Path, how: str) -> None:
    path = baseline.write(run(), "main", tmp_path)
    text = path.read_text()
    plain = json.loads(text)
    path.write_text(
        {
            "edit": text.replace('"seed":1', '"seed":2'),
            "cut": text[: len(text) // 2],
            "empty": "",
            "format": json.dumps(plain | {"format": 99}),
            "list": "[]",
        }[how]
    )
    with pytest.raises(NoEvidence, match=path.name):
        baseline.read("main", tmp_path)


def test_a_missing_baseline_is_no_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoEvidence, match="make baseline"):
        baseline.read("main", tmp_path)
    assert command("gate", tmp_path / "no-run", "--base", "main", "--baselines", tmp_path) == Exit.INVALID
    assert "There is no baseline 'main'" in capsys.readouterr().out
    (tmp_path / "main").mkdir()
    (tmp_path / "main" / baseline.CALIBRATION).write_text('{"spread": {}}')
    with pytest.raises(NoEvidence):
        baseline.read("main", tmp_path)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 101])
def test_names_stay_inside_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(GateUsage):
        baseline.read(name, tmp_path)


def test_it_can_be_read_from_another_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def git(*words: str) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", *who, *words], check=True, capture_output=True, env=clean, timeout=60)

    git("init", "-q", "-b", "main")
    kept(baseline.FOLDER, run(run_id="protected"))
    git("add", ".")
    git("commit", "-q", "-m", "baseline")
    (baseline.FOLDER / "main" / "protected.json").unlink()
    kept(baseline.FOLDER, run(run_id="raised"))
    assert [one.run_id for one in baseline.read("main").runs] == ["raised"]
    assert [one.run_id for one in baseline.read("main", ref="main").runs] == ["protected"]
    with pytest.raises(NoEvidence, match="fetched"):
        baseline.read("main", ref="nowhere")


def test_thinning_keeps_the_quantiles() -> None:
    random = np.random.default_rng(2)
    many = samples(random.lognormal(-3, 0.5, 200_000))
    few = thinned(many)
    assert len(few) == CELLS * PER_CELL
    drawn = draws(FINE, 1)
    for quantile in (0.5, 0.95):
        whole, thin = (float(np.median(quantiles(one, quantile, drawn))) for one in (many, few))
        assert thin == pytest.approx(whole, rel=0.01)


def test_resampled_quantiles_are_those_of_the_weighted_samples() -> None:
    values = np.arange(1.0, 101.0)
    once = np.ones((1, CELLS), np.float32)
    every = Samples(np.arange(100) % CELLS, values, np.zeros(100, bool))
    assert quantiles(every, 0.95, once)[0] == 95
    censored = Samples(every.cell, values, values > 90)
    assert quantiles(censored, 0.5, once)[0] == 50
    assert np.isnan(quantiles(censored, 0.95, once)[0])
    twice = Samples(every.cell, values, every.is_open, np.full(100, 2.0))
    assert quantiles(twice, 0.95, once)[0] == 95


def test_every_draw_is_of_a_whole_window() -> None:
    for n in (6, 12):
        drawn = draws(n, 3)
        assert (drawn.sum(axis=1) == CELLS).all()
        assert drawn.mean() == pytest.approx(1.0)
        assert (draws(n, 3) == drawn).all()
