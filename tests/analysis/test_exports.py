"""What other tools read: the JSON of vLLM's benchmark, and the table of tokens as Parquet."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_on_paper import cancelled, failed, ok, step, write_run

from analysis import tokens, vllm_json
from analysis.errors import RunError
from analysis.load import load

ROOT = Path(__file__).resolve().parents[2]

# As `vllm bench serve --save-result` writes them (vllm/benchmarks/serve.py, 2026), but for what only it can know.
KEYS = {"date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate"}
KEYS |= {
    "burstiness",
    "max_concurrency",
    "duration",
    "completed",
    "failed",
    "total_input_tokens",
    "total_output_tokens",
}
KEYS |= {"request_throughput", "request_goodput", "output_throughput", "total_token_throughput"}
KEYS |= {f"{one}_{metric}_ms" for one in ("mean", "median", "std", "p99") for metric in ("ttft", "tpot", "itl", "e2el")}


def test_a_step_as_vllm_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requests = [ok("a", 1, [100, 120, 160]), ok("b", 2, [200, 230]), failed("c", 3, 60)]
    requests += [cancelled("d", 9.9, 300)]
    folder = write_run(tmp_path / "run", requests, [step(1, 4, 0, 10)])
    assert vllm_json.run([str(folder), "--out", str(tmp_path / "out")]) == 0
    path = tmp_path / "out" / "vllm-step1-concurrency4.json"
    assert capsys.readouterr().out == f"{path}\n"
    found = json.loads(path.read_text())
    assert found.keys() >= KEYS
    assert (found["date"], found["model_id"], found["max_concurrency"]) == ("20251026-013000", "m", 4)
    assert (found["num_prompts"], found["completed"], found["failed"], found["duration"]) == (4, 2, 1, 10)
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (20, 5)
    assert found["request_throughput"] == pytest.approx(0.2)
    assert found["output_throughput"] == pytest.approx(0.5)
    assert found["total_token_throughput"] == pytest.approx(2.5)
    assert (found["mean_itl_ms"], found["std_itl_ms"]) == (pytest.approx(30), pytest.approx((200 / 3) ** 0.5))
    assert (found["std_ttft_ms"], found["std_e2el_ms"]) == (pytest.approx(50), pytest.approx(35))
    assert found["p99_ttft_ms"] is None  # two samples have no p99
    assert found["request_goodput"] is None


def test_figures_are_those_of_the_summary(tmp_path: Path) -> None:
    requests = [ok(f"r{i}", i / 40, [20 + i % 9, 60]) for i in range(399)]
    (path,) = vllm_json.write(vllm_json.analyse(write_run(tmp_path, requests)), tmp_path)
    found = json.loads(path.read_text())
    assert found["median_ttft_ms"] == pytest.approx(24)
    assert found["p99_ttft_ms"] == pytest.approx(28)
    assert found["p95_e2el_ms"] == pytest.approx(60)


def test_a_step_without_a_window_is_all_null(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [ok("a", 1, [5])], [step(1, 1, 0, 1)], warmup_s=2)
    (path,) = vllm_json.write(vllm_json.analyse(folder), tmp_path)
    found = json.loads(path.read_text())
    assert found["duration"] is None
    assert found["std_itl_ms"] is None
    assert found["tokenswarm_verdict"] == "invalid"


def test_a_folder_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert vllm_json.run(["nowhere"]) == 2
    assert "nowhere is no folder" in capsys.readouterr().err


def test_parquet_without_its_library_is_one_sentence(tmp_path: Path) -> None:
    run = load(write_run(tmp_path, [ok("a", 1, [50, 60])]))
    with pytest.raises(
        RunError, match=r"not installed: pip install -r requirements-parquet\.txt, or name a \.csv file"
    ):
        tokens.write(run, tmp_path / "tokens.parquet")
    assert not list(tmp_path.glob("tokens*"))


READ = """
import json, sys
from pyarrow import parquet
print(json.dumps(parquet.read_table(sys.argv[1]).to_pydict()))
"""


def test_parquet_is_the_same_table(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [ok("a", 1, [50, 60], chunk_tokens=(1, 2)), ok("b", 2, [40])])
    library = Path(sys.prefix, "parquet")  # make test puts it there
    assert library.is_dir(), f"install pyarrow: pip install --no-deps --target {library} -r requirements-parquet.txt"

    def python(*arguments: object) -> str:
        command = [sys.executable, *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(library)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT).stdout

    path = tmp_path / "tokens.parquet"
    python("-m", "analysis", "tokens", folder, "--out", path)
    found = json.loads(python("-c", READ, path))
    assert found["request_id"] == ["a", "a", "b"]
    assert found["chunk"] == [0, 1, 0]
    assert found["gap_s"] == [None, pytest.approx(0.01), None]
    assert found["step"] == [1, 1, 1]
    assert found["tokens"][:2] == [1, 2]
