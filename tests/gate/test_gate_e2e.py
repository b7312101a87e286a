"""The gate against real runs of the simulator: the same thing, slower, failing, renamed, and silent half of the time."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis import gate
from analysis.gate import Exit
from tests.gate.commanding import command
from tests.servers import REPO, simulator_server

pytestmark = pytest.mark.slow
SERVER = ("--answer-tokens", "20", "--answer-sigma", "0.1", "--base-s", "0.02", "--jitter", "0.05")
BUDGET = "ttft_p95:+30%,tpot_p50:+3%,output_tokens_per_s:-8%,error_ratio:+8pp"
PROMPTS = "".join(json.dumps({"id": f"p{i}", "prompt": f"Say {i}.", "max_tokens": 3}) + "\n" for i in range(10))
ATTEMPTS = 3  # a step in which this machine was too busy to measure is no evidence: it is measured again
RUN_LIMIT_S = 120.0


def load(url: str, results: Path, name: str, step_time: str) -> Path:
    options = ["--steps=8", f"--step-time={step_time}", "--warmup=1s", "--prompt-tokens=64", "--max-tokens=24"]
    where = ["--host", url, f"--results={results}", f"--run-name={name}", f"--quality={results / 'prompts.jsonl'}"]
    locust = ["-m", "locust", "-f", "locustfiles/chat.py,scenarios/stepload.py", "--headless", "--only-summary"]
    done = subprocess.run(
        [sys.executable, *locust, *options, *where],
        cwd=REPO,
        env={**os.environ, "OPENAI_API_KEY": ""},
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return results / name


def measured(results: Path, name: str, *server: str) -> Path:
    """A run's folder, in which the client's own state is no reason for doubt."""
    said = ""
    for attempt in range(ATTEMPTS):
        with simulator_server(*SERVER, *server) as there:
            folder = load(there.base_url, results, f"{name}-{attempt}", "7s")
        (step,) = gate.keep(folder).steps
        if step.client_verdict != "invalid":
            return folder
        said = step.reasons
    pytest.skip(f"this machine is too busy to measure anything: {said}")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("gate")
    (folder / "prompts.jsonl").write_text(PROMPTS)
    with contextlib.chdir(folder):
        assert command("baseline", measured(folder, "base"), "--name", "main") == 0
        yield folder


def held(folder: Path, *words: str) -> tuple[int, dict[str, object], dict[str, str]]:
    """Exit code, the JSON, and the verdict of each gating figure."""
    code = command("gate", folder, "--base", "main", "--budget", BUDGET, *words)
    plain = json.loads((folder / "gate.json").read_text())
    assert plain["exit_code"] == code
    return code, plain, {one["figure"]: one["verdict"] for one in plain["figures"] if one["gating"]}


def test_the_same_server_does_not_fail(results: Path) -> None:
    code, plain, verdicts = held(measured(results, "same"))
    assert code in (Exit.PASS, Exit.INCONCLUSIVE), plain["headline"]
    assert verdicts["quality_empty"] == verdicts["quality_similarity"] == "pass"


def test_a_slower_decode_fails_on_tpot_and_is_named(results: Path) -> None:
    code, plain, verdicts = held(measured(results, "slow", "--slowdown", "1.12"))
    assert code == Exit.FAIL
    assert verdicts["tpot_p50"] == "fail"
    assert "decode is slower" in str(plain["headline"])


def test_a_shorter_queue_fails_on_the_error_ratio(results: Path) -> None:
    code, _, verdicts = held(measured(results, "queue", "--max-num-seqs", "3", "--max-queue", "1"))
    assert code == Exit.FAIL
    assert verdicts["error_ratio"] == "fail"


def test_half_the_answers_empty_fails_although_those_that_came_were_faster(results: Path) -> None:
    folder = measured(results, "empty", "--fault", "empty:share=0.5")
    code, _, verdicts = held(folder)
    assert code == Exit.FAIL
    assert verdicts["error_ratio"] == verdicts["quality_empty"] == "fail"
    assert verdicts["ttft_p95"] == "invalid"  # a latency of the survivors is no latency of the server
    speed_alone, *_ = held(folder, "--quality-budget", "none")
    assert speed_alone == Exit.FAIL


def test_another_model_is_refused_by_name(results: Path) -> None:
    with simulator_server(*SERVER, "--model", "other") as there:
        folder = load(there.base_url, results, "model", "3s")
    code, plain, verdicts = held(folder)
    assert (code, verdicts) == (Exit.INVALID, {})
    assert {one["name"] for one in plain["differs"]} == {"model", "step_time_s"}
    allowed, *_ = held(folder, "--allow", "model,step_time_s")
    assert allowed != Exit.WRONG_USE
