"""Every client runs against the emitter, and the command writes all that it measured. What it measured is not judged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import native
from bench.passes import Client, Kind, Pass, Programs, run
from bench.processes import ROOT, BenchError, Place

ANYWHERE = Place((), 0)
LIMIT_S = 60.0
QUANTILES = {"p50", "p99", "max", "samples"}
OURS = {"tokens", "took_s", "tokens_per_s", "cpu_us", "cpu_cores", "rows", "coalesced_share", "kernel_stamp_share"} | {
    "read_lag_max_ms",
    "loop_lag_max_ms",
}
COMPARED = {"error_ms", "ttft_error_ms", "ttft_ms", "true_ttft_ms"}


@pytest.mark.parametrize("client", [Client.OURS, Client.OPENAI, Client.REQUESTS])
def test_a_client_compares_every_token_with_the_truth(client: Client) -> None:
    outcome = run(Pass(client, Kind.ERRORS, 3, 5, 2), Programs(None, None), ANYWHERE, LIMIT_S)
    measured = outcome["measured"]
    assert measured["tokens"] == 3 * 5 * 2
    assert outcome["emitter"]["tokens"] == 3 * 5 * 3  # with the round to warm up
    assert measured["error_ms"].keys() == QUANTILES
    assert measured["error_ms"]["samples"] == 30
    assert measured["ttft_error_ms"]["samples"] == 6
    assert 0 < measured["true_ttft_ms"]["p50"] <= measured["true_ttft_ms"]["max"]
    assert 0 < measured["error_ms"]["max"] < LIMIT_S * 1000
    assert measured["cpu_us"] > 0
    assert outcome["others_cores"] >= 0


def test_the_c_client_does_the_same(tmp_path: Path) -> None:
    programs = Programs(native.compiled("emitter", tmp_path), native.compiled("reader", tmp_path))
    if programs.reader is None:
        pytest.skip("no C compiler here")
    for kind in (Kind.COST, Kind.ERRORS):
        measured = run(Pass(Client.C, kind, 3, 5, 2), programs, ANYWHERE, LIMIT_S)["measured"]
        assert measured["tokens"] == 30
        assert measured["cpu_us"] > 0
        assert ("error_ms" in measured) is (kind is Kind.ERRORS)
    assert measured["error_ms"]["samples"] == 30
    assert measured["ttft_error_ms"]["samples"] == 6


def test_without_a_compiler_the_c_client_is_not_measured() -> None:
    with pytest.raises(BenchError, match="no C compiler"):
        run(Pass(Client.C, Kind.COST, 1, 1, 1), Programs(None, None), ANYWHERE, LIMIT_S)


def test_nothing_is_begun_when_the_time_is_over() -> None:
    with pytest.raises(BenchError, match="time was over"):
        run(Pass(Client.OURS, Kind.COST, 1, 1, 1), Programs(None, None), ANYWHERE, 0.0)


@pytest.mark.slow
def test_the_quick_benchmark_of_ours_alone_prints_its_table_and_writes_everything(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--only", "ours", "--priority", "0", "--json", str(file)],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content.keys() == {"machine", "emitter", "place", "took_s", "goals", "passes"}
    assert {name.split("-")[0] for name in content["passes"]} == {"ours"}
    for goal in content["goals"]:
        assert goal.keys() == {"section", "what", "measured", "goal", "verdict"}
        assert goal["what"] in done.stdout
    measured = {name: one["measured"] for name, one in content["passes"].items() if "measured" in one}
    assert measured, done.stdout  # on a machine this busy the last passes may fall to the time limit
    for name, found in measured.items():
        wanted = content["passes"][name]["pass"]
        assert found.keys() >= OURS
        assert found["tokens"] == wanted["streams"] * wanted["tokens"] * wanted["rounds"]
        assert found["rows"] == wanted["streams"] * (wanted["rounds"] + 1)
        assert (found.keys() >= COMPARED) is (wanted["kind"] in ("errors", "fast-errors"))
