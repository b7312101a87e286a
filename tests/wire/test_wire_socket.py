"""Every recorded answer over a real socket, through the probe: what a user would see of it.

Times are compared with the delays that were asked for: nothing may arrive before its time; how much later it comes is
this machine's affair.
"""

import concurrent.futures
import itertools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from transcripts import CASES, PATH, answers, outcome

from tokenswarm.record import Caution, ErrorClass, Outcome, TokensFrom

ROOT = pathlib.Path(__file__).parents[2]
AT_ONCE = 3  # processes that probe
PROBES_LIMIT_S = 120
EARLY_S = 0.002  # the server's sleep and the two clocks may differ by so much
SAME_GROUP_US = 5000  # far below the delays of the cases, far above one write
LATE_S = 2.0  # on a busy machine


def options(case: dict[str, Any]) -> list[str]:
    """The probe's options for what the case asks of its client."""
    sent = case["input"]
    request = sent.get("request") or {}
    client = sent.get("client", {})
    found = ["--requests", str(len(case["expected"].get("responses", [None])))]
    if "max_tokens" in request:
        found += ["--max-tokens", str(request["max_tokens"])]
    if "ignore_eos" in request:
        found += ["--extra-body", json.dumps({"ignore_eos": request["ignore_eos"]})]
    if "prompt_tokens_by_tokenizer" in request:
        found += ["--prompt-tokens", str(request["prompt_tokens_by_tokenizer"])]
    limits = {
        "idle_timeout_ms": "--stall-timeout",
        "first_token_timeout_ms": "--first-token-timeout",
        "total_timeout_ms": "--total-timeout",
        "connect_timeout_ms": "--connect-timeout",
    }
    for name, option in limits.items():
        if name in client:
            found += [option, str(client[name] / 1000)]
    return found


@pytest.fixture(scope="module")
def ports() -> Iterator[dict[str, int]]:
    command = [sys.executable, str(PATH.with_name("replay.py")), str(PATH)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())
        assert server.stdin is not None
        server.stdin.close()
        server.wait(10)


def command_line(case: dict[str, Any], port: int) -> list[str]:
    return [f"http://127.0.0.1:{port}", "--no-preflight", "--model", "mock-8b", "--json", *options(case)]


def probe_many(cases: list[dict[str, Any]], ports: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    """The probe's lines for each of `cases`, one case after the other."""
    asked = "".join(json.dumps(command_line(case, ports[case["id"]])) + "\n" for case in cases)
    command = [sys.executable, str(PATH.with_name("probe_many.py"))]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, input=asked, cwd=ROOT, env=path, capture_output=True, text=True, timeout=PROBES_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(zip([case["id"] for case in cases], map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.fixture(scope="module")
def probed(ports: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        shares = pool.map(lambda number: probe_many(CASES[number::AT_ONCE], ports), range(AT_ONCE))
        return {case_id: lines for share in shares for case_id, lines in share.items()}


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_recorded_answer_over_a_socket(case: dict[str, Any], probed: dict[str, list[dict[str, Any]]]) -> None:
    lines, pairs = probed[case["id"]], answers(case)
    assert len(lines) == len(pairs)
    for line, (sent, expected) in zip(lines, pairs, strict=True):
        check(line, sent, expected)


def test_the_command_itself(ports: dict[str, int]) -> None:
    case = next(case for case in CASES if case["expected"].get("error_class") == ErrorClass.OVERLOADED)
    command = [sys.executable, "-m", "tokenswarm.probe", *command_line(case, ports[case["id"]])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PROBES_LIMIT_S, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    check(json.loads(done.stdout), case["input"], case["expected"])


def check(line: dict[str, Any], sent: dict[str, Any], expected: dict[str, Any]) -> None:
    judged = outcome(expected)
    assert (Outcome(line["outcome"]), line["error_class"] and ErrorClass(line["error_class"])) == judged, line["detail"]
    assert line["http_status"] == expected["http_status"]
    if "token_timestamps" in expected:
        assert len(line["chunk_us"]) == expected["token_timestamps"]
    assert line["chunk_us"] == sorted(line["chunk_us"])
    for column, name in (("output_tokens", "output_tokens"), ("prompt_tokens", "prompt_tokens")):
        if name in expected:
            assert line[column] == expected[name], name
    for name in ("text", "reasoning_text", "tool_arguments", "finish_reason", "retry_after_s"):
        if name in expected:
            assert line[name] == expected[name], name
    if "partial_text" in expected:
        assert line["text"] == expected["partial_text"]
    if "tokens_per_event" in expected:
        assert line["chunk_tokens"] == expected["tokens_per_event"]
    if "error_message" in expected:
        assert line["detail"] == expected["error_message"]
    if expected.get("tokens_source") == TokensFrom.USAGE:
        assert line["tokens_from"] == TokensFrom.USAGE
    assert {Caution(name) for name in expected.get("warnings", [])} <= {Caution(name) for name in line["warnings"]}
    assert (Caution.NOT_STREAMED in line["warnings"]) == (expected.get("streamed") is False)
    check_times(line, sent, expected, judged[0])


def check_times(line: dict[str, Any], sent: dict[str, Any], expected: dict[str, Any], judged: Outcome) -> None:
    """Each chunk against the delay it was sent with, then the metrics derived from them."""
    if judged is Outcome.OK and expected.get("streamed") is not False:
        for metric in ("ttft", "e2e"):
            nominal_s = expected[f"{metric}_ms_nominal"] / 1000
            assert nominal_s - EARLY_S <= line[f"{metric}_s"] <= nominal_s + LATE_S, metric
        if "ttfo_ms_nominal" in expected:
            assert line["ttfo_s"] >= expected["ttfo_ms_nominal"] / 1000 - EARLY_S
    if judged is not Outcome.OK or expected.get("streamed") is False:
        assert line["ttft_s"] is None
        assert line["tpot_s"] is None
    elif expected.get("tpot_ms_nominal", 0) is None:
        assert line["tpot_s"] is None
    if line["chunk_us"] and "ttft_chunk" in expected:
        delays = [chunk["delay_ms"] for chunk in sent["chunks"]]
        assert line["chunk_us"][0] / 1e6 >= sum(delays[: expected["ttft_chunk"] + 1]) / 1000 - EARLY_S
    gaps_us = [later - earlier for earlier, later in itertools.pairwise(line["chunk_us"])]
    if "arrival_groups" in expected:
        assert 1 + sum(gap_us > SAME_GROUP_US for gap_us in gaps_us) == expected["arrival_groups"]
    if "tolerance_ms" in expected:  # one stamp for one write: neither merged nor made up
        assert all(
            gap_us / 1e6 >= nominal_ms / 1000 - EARLY_S
            for gap_us, nominal_ms in zip(gaps_us, expected["itl_ms_nominal"], strict=True)
        )
