"""`python -m tokenswarm.probe`, as a user runs it."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

import gevent
import pytest

from tests.reach.scripted import CHUNKED_HEAD, STREAM, Peer, Scripted, always, answer, chunk, environment, event, until
from tests.test_preflight import WITH_USAGE, models, serving
from tokenswarm.metrics import METRICS, derive
from tokenswarm.probe import arguments, outcome
from tokenswarm.record import RequestRecord, columns

COMMAND = [sys.executable, "-m", "tokenswarm.probe"]
LIMIT_S = 60


def environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    kept.pop("OPENAI_API_KEY", None)
    return kept


def probe(*words: str) -> "subprocess.CompletedProcess[str]":
    more = {"capture_output": True, "text": True, "timeout": LIMIT_S, "env": environ()}
    return gevent.get_hub().threadpool.apply(subprocess.run, ([*COMMAND, *words],), more)


def test_json() -> None:
    with Scripted(always(WITH_USAGE)) as server:
        done = probe(server.url, "--no-preflight", "--model", "m", "--requests", "3", "--json", "--max-tokens", "9")
        assert len(server.requests) == 3  # exactly so many, and nothing else
        asked = json.loads(server.requests[0].body)
        assert {request.target for request in server.requests} == {"/v1/chat/completions"}
        assert (asked["model"], asked["max_tokens"], asked["stream"]) == ("m", 9, True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 3
    line = lines[0]
    assert set(columns(RequestRecord)) <= set(line)
    assert {"ttft_s", "ttfo_s", "tpot_s", "e2e_s", "tokens_per_chunk", "user_tokens_per_s", "retry_after_s"} <= set(
        line
    )
    assert (line["text"], line["reasoning_text"], line["tool_arguments"]) == ("Hi you", "", "")
    assert (line["outcome"], line["warnings"], line["output_tokens"], line["prompt_tokens"]) == ("ok", [], 2, 7)
    assert line["ttft_s"] == line["chunk_us"][0] / 1e6
    assert [entry["connect_us"] is None for entry in lines] == [False, True, True]


def test_for_people_with_preflight() -> None:
    with Scripted(serving(models("one"), STREAM)) as server:
        done = probe(server.url, "--requests", "2")
        assert len(server.requests) == 4
    assert done.returncode == 0
    assert "request 1: ok, HTTP 200, finish_reason stop" in done.stdout
    assert "request 2: ok" in done.stdout
    assert "TTFT" in done.stdout
    assert "stamped by: kernel" in done.stdout
    assert "2 chunks, ? output tokens" in done.stdout
    assert "'Hi you'" in done.stdout
    assert "note: the server reports no usage" in done.stderr


def test_failed_request() -> None:
    with Scripted(always(answer(503, b'{"error":{"message":"busy"}}', more=b"Retry-After: 7\r\n"))) as server:
        done = probe(server.url, "--no-preflight", "--model", "m", "--json")
    line = json.loads(done.stdout)
    assert done.returncode == 1
    assert (line["outcome"], line["error_class"], line["http_status"]) == ("failed", "overloaded", 503)
    assert line["retry_after_s"] == 7
    assert line["ttft_s"] is None


def test_wrong_use() -> None:
    done = probe("http://127.0.0.1:1", "--no-preflight")
    assert done.returncode == 2
    assert done.stderr == "--no-preflight needs --model: nothing is asked of the server beforehand\n"
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["http://127.0.0.1:1"], "The target cannot be reached: no connection to 127.0.0.1:1"),
        (["ftp://x"], "no http(s) URL"),
        (["http://127.0.0.1:1", "--requests", "0"], "--requests must be 1 or more"),
        (["http://127.0.0.1:1", "--max-tokens", "-1"], "--max-tokens must be 1 or more"),
        (["https://127.0.0.1:1", "--ca-file", "/nowhere.pem"], "--ca-file /nowhere.pem cannot be used"),
    ],
)
def test_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with environment():
        assert outcome(arguments().parse_args(words)) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == ""
    assert len(shown.err.strip().splitlines()) == 1


def test_reader_that_goes_away() -> None:
    with Scripted(always(STREAM, pause_s=0.05)) as server:
        words = [server.url, "--no-preflight", "--model", "m", "--json", "--requests", "200"]
        process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
        assert process.stdout is not None
        pool = gevent.get_hub().threadpool
        assert pool.apply(process.stdout.readline)
        process.stdout.close()
        said = pool.apply(_rest, (process,))
    assert said == b""
    assert process.returncode == 141


def test_ctrl_c() -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.send(CHUNKED_HEAD, chunk(event()))
        peer.await_gone()

    with Scripted(script) as server:
        words = [server.url, "--no-preflight", "--model", "m"]
        process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ())
        until(lambda: server.requests)
        process.send_signal(signal.SIGINT)
        said = gevent.get_hub().threadpool.apply(_rest, (process,))
        assert server.peers[0].gone.wait(20)
    assert said == b""
    assert process.returncode == 130


def _rest(process: "subprocess.Popen[bytes]") -> Any:
    assert process.stderr is not None
    said = process.stderr.read()
    process.wait(LIMIT_S)
    return said


def test_derived_metrics_have_one_spelling() -> None:
    record = RequestRecord(request_id="1", worker="w", user="u", task="t", sent_at=1.0, outcome="ok")  # type: ignore[arg-type]
    assert set(derive(record)) <= set(METRICS)
