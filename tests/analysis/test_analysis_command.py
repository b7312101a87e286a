"""The command as a person uses it: the golden run, small terminals, wrong words."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from run_on_paper import cancelled, failed, health, ok, step, write_run

from analysis import findings, table
from analysis.__main__ import main
from analysis.pipeline import analyse
from tokenswarm.record import ErrorClass

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


def copied(source: Path, folder: Path) -> Path:
    folder.mkdir()
    for path in source.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def text(folder: Path, width: int, plain: bool = False) -> str:
    found = analyse(folder)
    said = findings.findings(found)
    return table.render(found.summary, found.requests, found.run, width, plain, findings=said)


def small_run(folder: Path) -> Path:
    """Three steps of 10 s: sound, half failing, dead. No timing, no chance."""
    rows = [ok("w", -0.1, [10])]
    rows += [ok(f"a{i}", i / 8, [30 + i % 7, 50 + i % 11, 120], user="u0") for i in range(80)]
    rows += [ok(f"b{i}", 10 + i / 20, [60 + i % 13, 100, 240], user=f"u{i % 5}") for i in range(100)]
    rows += [failed(f"c{i}", 15 + i / 20, 4, detail='queue "full", <b>try later</b>') for i in range(100)]
    rows += [failed(f"d{i}", 20 + i / 4, 2, error_class=ErrorClass.CONNECT_FAILED, http_status=None) for i in range(38)]
    rows += [cancelled("e", 29.9, 100)]
    steps = [step(1, 1, 0, 10, -0.2), step(2, 5, 10, 20), step(3, 20, 20, 30)]
    healths = [health(s, users=(1, 5, 20)[(s - 1) // 10]) for s in range(1, 31)]
    about = {"run_id": "golden", "conditions": {"prompt_tokens": 10, "max_tokens": 3}, "slos": {"ttft_p95": 0.07}}
    return write_run(folder, rows, steps, healths, **about)


def test_the_golden_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exact table and summary.csv. After a wanted change: PYTHONPATH=. python tests/analysis/test_analysis_command.py"""
    monkeypatch.setenv("COLUMNS", "120")
    run = copied(GOLDEN / "run", tmp_path / "run")
    assert main(["summary", str(run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [str(run / "report.html"), str(run)]
    assert "\n".join(lines[:-2]) + "\n" == (GOLDEN / "table-120.txt").read_text()
    assert text(run, 80) == (GOLDEN / "table-80.txt").read_text()
    assert (run / "summary.csv").read_text() == (GOLDEN / "summary.csv").read_text()
    assert (run / "curve.png").read_bytes().startswith(PNG)
    assert "<svg" in (run / "curve.svg").read_text()
    assert not list(run.glob("*.part"))


@pytest.mark.parametrize("width", [80, 100, 119, 120, 160])
def test_no_line_is_wider_than_the_terminal_and_no_figure_is_cut(tmp_path: Path, width: int) -> None:
    shown = text(small_run(tmp_path), width)
    words = shown.split("Errors in the whole run")[0]
    assert max(map(len, words.splitlines())) <= width
    assert "…" not in words


def test_many_steps_fit_a_small_terminal(tmp_path: Path) -> None:
    steps = [step(i + 1, 2**i, i * 10, i * 10 + 10) for i in range(12)]
    shown = text(write_run(tmp_path, [ok("a", 1, [5])], steps), 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "2048" in shown


def test_plain_is_ascii(tmp_path: Path) -> None:
    run = small_run(tmp_path)
    (run / "run.json").write_text((run / "run.json").read_text().replace('"m"', '"模型"'))
    shown = text(run, 120, plain=True)
    assert shown.isascii()
    assert "100 x overloaded (HTTP 503)" in shown


def test_the_verdict_is_on_the_first_lines(tmp_path: Path) -> None:
    lines = text(small_run(tmp_path), 120).splitlines()
    assert lines[2].startswith("INVALID at 5 and 20 users: at 5 users 50.0% of the requests failed")


def test_a_run_without_an_answer_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path, [failed("a", 1, 3, detail="no such host")])
    assert main(["summary", str(run)]) == 0
    out = capsys.readouterr().out
    assert "No request was answered: there is no latency to show." in out
    assert "1 × overloaded (HTTP 503): no such host" in out
    assert (run / "curve.png").stat().st_size > 1000


def test_a_run_without_a_step_or_a_row_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path, [])
    (run / "steps.csv").unlink()
    assert main(["summary", str(run)]) == 0
    out = capsys.readouterr().out
    assert "No step was recorded" in out
    assert "steps.csv is missing." in out


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    assert "This run was interrupted. Figures are of what was recorded." in text(
        write_run(tmp_path, [ok("a", 1, [5])], state="interrupted"), 80
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["summary", "nowhere"], "analysis: nowhere is no folder; name a run's folder, such as results/<run>."),
        (["summary", "."], "has no run.json; name a run's folder, such as results/<run>."),
        (["tokens", "nowhere"], "analysis: nowhere is no folder"),
    ],
)
def test_wrong_use_is_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1


def test_a_folder_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = small_run(tmp_path)
    (run / "summary.csv.part").mkdir()  # also stops root
    assert main(["summary", str(run)]) == 2
    assert "Is a directory" in capsys.readouterr().err


def test_tokens_are_one_row_a_chunk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(
        tmp_path / "run", [ok("b", 2, [40], chunk_tokens=(1,)), ok("a", 1, [50, 60, 90]), failed("c", 3, 5)]
    )
    out = tmp_path / "all.csv"
    assert main(["tokens", str(run), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    found = pd.read_csv(out)
    assert found.request_id.tolist() == ["a", "a", "a", "b"]
    assert found.chunk.tolist() == [0, 1, 2, 0]
    assert found.gap_s.tolist() == pytest.approx([np.nan, 0.01, 0.03, np.nan], nan_ok=True)
    assert found.tokens.tolist() == pytest.approx([np.nan, np.nan, np.nan, 1], nan_ok=True)
    assert (found.arrived_at - 1_761_442_200).tolist() == pytest.approx([1.05, 1.06, 1.09, 2.04], abs=1e-6)
    assert found.step.tolist() == [1, 1, 1, 1]
    assert (found.run_id == "paper").all()


def test_importing_is_light_and_knows_no_locust() -> None:
    """--help and a wrong folder need no pandas; nothing here ever needs locust or gevent."""
    code = (
        "import sys, analysis.__main__ as m\n"
        "assert 'pandas' not in sys.modules\n"
        "import analysis.pipeline, analysis.table, analysis.plots, analysis.tokens, analysis.report, analysis.compare\n"
        "heavy = {'locust', 'gevent', 'matplotlib', 'scipy', 'bokeh', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


if __name__ == "__main__":  # writes the golden files anew
    (GOLDEN / "run").mkdir(parents=True, exist_ok=True)
    found = analyse(small_run(GOLDEN / "run"))
    for columns in (80, 120):
        (GOLDEN / f"table-{columns}.txt").write_text(text(GOLDEN / "run", columns))
    from analysis.summary import write

    write(found.summary, GOLDEN)
