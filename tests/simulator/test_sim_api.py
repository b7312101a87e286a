"""The API over a real socket: answers, usage, errors, and the truth log beside them."""

import contextlib
import http.client
import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from served_simulator import FAST, ROOT, WAIT_S, Running, wait_until

from simulator.__main__ import main
from simulator.tokens import tokenize

Start = Callable[..., contextlib.AbstractContextManager[Running]]


def test_it_says_what_it_serves(simulator: Running) -> None:
    models = simulator.request("GET", "/v1/models").json
    assert [(card["id"], card["max_model_len"]) for card in models["data"]] == [("simulated", 4096)]
    assert simulator.request("GET", "/health").status == 200
    assert simulator.request("GET", "/version").json["version"].startswith("simulator-")
    assert simulator.request("GET", "/v1/nothing").status == 404


def test_a_stream_is_role_text_finish_usage_done(simulator: Running) -> None:
    answer = simulator.stream("Count to five.", max_tokens=5, ignore_eos=True)
    first, *text, usage = answer.chunks
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert len(answer.texts) == len(text) == 5
    assert [chunk["choices"][0]["finish_reason"] for chunk in text] == [None] * 4 + ["length"]
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 4 + 3 + 2, "completion_tokens": 5, "total_tokens": 14}
    assert answer.data[-1] == "[DONE]"
    assert {chunk["id"] for chunk in answer.chunks} == {answer.headers["x-request-id"]}


def test_usage_comes_only_when_asked_for(simulator: Running) -> None:
    assert not any("usage" in chunk for chunk in simulator.stream(max_tokens=3, stream_options={}).chunks)


def test_running_usage_is_on_every_chunk(simulator: Running) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    answer = simulator.stream("Hi", max_tokens=3, ignore_eos=True, stream_options=options)
    assert [chunk["usage"]["completion_tokens"] for chunk in answer.chunks] == [0, 1, 2, 3, 3]
    assert {chunk["usage"]["prompt_tokens"] for chunk in answer.chunks} == {6}


def test_a_whole_answer_says_the_same_as_the_stream(simulator: Running) -> None:
    whole, streamed = simulator.chat("Tell me more", max_tokens=30), simulator.stream("Tell me more", max_tokens=30)
    (choice,) = whole.json["choices"]
    assert choice["message"]["content"] == "".join(streamed.texts)
    assert [choice["finish_reason"]] == streamed.finish_reasons
    assert whole.json["usage"] == streamed.chunks[-1]["usage"]


def test_a_natural_end_counts_the_token_that_ends_it(simulator: Running) -> None:
    answer = simulator.stream("Speak freely.")
    tokens = answer.chunks[-1]["usage"]["completion_tokens"]
    assert answer.finish_reasons == ["stop"]
    assert len(answer.texts) == tokens - 1 == len(tokenize("".join(answer.texts)))


def test_min_tokens_and_max_completion_tokens(simulator: Running) -> None:
    long = simulator.stream("Speak freely.", min_tokens=250, max_tokens=300)
    assert long.chunks[-1]["usage"]["completion_tokens"] == 251
    short = simulator.stream("Speak freely.", max_tokens=50, max_completion_tokens=2, ignore_eos=True)
    assert len(short.texts) == 2


def test_chinese_prompts_count_a_token_a_character_and_get_chinese_answers(simulator: Running) -> None:
    answer = simulator.stream("你好，世界", max_tokens=8, ignore_eos=True)
    assert answer.chunks[-1]["usage"]["prompt_tokens"] == 5 + 5
    assert all("\u4e00" <= text <= "\u9fff" for text in answer.texts)


def test_content_parts_are_joined(simulator: Running) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 1}
    answer = simulator.request("POST", "/v1/chat/completions", json.dumps(body).encode())
    assert answer.json["usage"]["prompt_tokens"] == 2 + 5


def test_answers_repeat_for_a_seed_and_differ_between_prompts_and_seeds(simulator: Running, start: Start) -> None:
    asked = [("a", {}), ("a", {"seed": 7}), ("b", {})]
    texts = ["".join(simulator.stream(text, max_tokens=20, **more).texts) for text, more in asked]
    assert len(set(texts)) == 3
    with start(*FAST) as same:
        assert ["".join(same.stream(text, max_tokens=20, **more).texts) for text, more in reversed(asked)] == texts[
            ::-1
        ]


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"model": "other"}, 404, "The model `other` does not exist."),
        ({"n": 2}, 400, "n must be 1"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": "ten"}, 400, "max_tokens"),
        ({"temperature": "hot"}, 400, "temperature"),
        ({"messages": []}, 400, "messages"),
        ({"messages": None}, 400, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "image_url"),
        ({"min_tokens": 9, "max_tokens": 8}, 400, "min_tokens must be less than or equal to max_tokens=8, got 9."),
        ({"stream_options": {"include_usage": True}}, 400, "Stream options can only be defined"),
        ({"max_tokens": 5000}, 400, "you requested 5000 output tokens and your prompt contains 8 input tokens"),
        ({"messages": [{"role": "user", "content": "x " * 4096}]}, 400, "maximum context length is 4096 tokens"),
        ({"fault": {"kind": "gremlins"}}, 400, "gremlins"),
    ],
)
def test_wrong_requests_are_turned_away_in_words(
    simulator: Running, fields: dict[str, Any], status: int, says: str
) -> None:
    answer = simulator.chat("one two three"[:13], headers={"X-Request-Id": f"wrong-{says}"}, **fields)
    error = answer.json["error"]
    assert (answer.status, error["code"]) == (status, status)
    assert says in error["message"]
    row = simulator.truth(f"wrong-{says}")
    assert (row["outcome"], row["http_status"], row["output_tokens"]) == ("rejected", status, None)


@pytest.mark.parametrize("body", [b"{", b"", b"\xff\xfe", b'"text"'])
def test_bodies_that_are_no_request_get_400(simulator: Running, body: bytes) -> None:
    answer = simulator.request("POST", "/v1/chat/completions", body)
    assert (answer.status, answer.json["error"]["type"]) == (400, "BadRequestError")


def test_a_key_is_asked_for_under_v1_only(start: Start) -> None:
    with start(*FAST, "--api-key", "secret") as guarded:
        assert guarded.chat(max_tokens=1).status == 401
        assert guarded.chat(max_tokens=1, headers={"Authorization": "Bearer wrong"}).status == 401
        assert guarded.chat(max_tokens=1, headers={"Authorization": "Bearer secret"}).status == 200
        assert guarded.request("GET", "/v1/models").status == 401
        assert guarded.request("GET", "/health").status == 200


def test_the_truth_log_knows_every_chunk(simulator: Running) -> None:
    before = time.time()
    answer = simulator.stream(max_tokens=20, ignore_eos=True, headers={"X-Request-Id": "known-1"})
    after = time.time()
    assert answer.headers["x-request-id"] == "known-1" == answer.chunks[0]["id"]
    row = simulator.truth("known-1")
    instants = [row["arrived_at"] * 1e9, row["role_ns"], *row["chunk_ns"], row["ended_at"] * 1e9]
    assert before * 1e9 - 1000 <= instants[0]
    assert row["chunk_ns"][-1] <= after * 1e9
    assert all(earlier <= later + 1000 for earlier, later in itertools.pairwise(instants))
    assert (row["chunk_tokens"], row["output_tokens"], row["max_tokens"]) == ([1] * 20, 20, 20)
    assert (row["outcome"], row["finish_reason"], row["finish_ns"]) == ("ok", "length", row["chunk_ns"][-1])
    assert row["prompt_tokens"] == answer.chunks[-1]["usage"]["prompt_tokens"]
    assert (
        row["chunk_ns"][-1] - row["chunk_ns"][0] >= 15 * 2_000_000
    )  # 19 iterations of 2 ms, some room for a late first one


def test_counters_equal_the_truth(start: Start) -> None:
    with start(*FAST, "--max-num-seqs", "4", "--kv-blocks", "16", "--max-model-len", "200") as server:
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda i: server.stream(f"Question {i}", max_tokens=60), range(24)))
        assert {answer.status for answer in answers} == {200}
        rows = wait_until(lambda: rows if len(rows := server.rows()) == 24 else None)
        assert server.metric("vllm:generation_tokens_total") == sum(row["output_tokens"] for row in rows)
        assert server.metric("vllm:prompt_tokens_total") == sum(row["prompt_tokens"] for row in rows)
        assert server.metric("vllm:num_preemptions_total") == sum(row["preemptions"] for row in rows) > 0
        for reason in ("stop", "length"):
            ended = sum(row["finish_reason"] == reason for row in rows)
            sample = f'vllm:request_success_total{{engine="0",model_name="simulated",finished_reason="{reason}"}}'
            assert server.metric(sample) == ended > 0
        for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds"):
            assert server.metric(f"vllm:{name}_count") == 24
        assert server.metric("vllm:inter_token_latency_seconds_count") == sum(r["output_tokens"] - 1 for r in rows)
        usage = [answer.chunks[-1]["usage"]["completion_tokens"] for answer in answers]
        assert sorted(usage) == sorted(row["output_tokens"] for row in rows)
        assert all(sum(row["chunk_tokens"]) + (row["finish_reason"] == "stop") == row["output_tokens"] for row in rows)
        for gauge in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
            assert server.metric(f"vllm:{gauge}") == 0


def test_the_prefix_cache_is_told_in_usage_and_carries_conversations(start: Start) -> None:
    with start(*FAST, "--prefix-cache") as server:
        messages = [{"role": "user", "content": "word " * 60}]

        def ask(messages: list[Any]) -> Any:
            body = json.dumps({"messages": messages, "min_tokens": 40, "max_tokens": 400}).encode()
            return server.request("POST", "/v1/chat/completions", body).json

        first = ask(messages)
        assert first["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
        messages += [first["choices"][0]["message"], {"role": "user", "content": "And then?"}]
        second = ask(messages)
        # all of the first turn that fills blocks of 16 tokens, but for its very last token, which was never computed
        known = first["usage"]["total_tokens"] - 1
        assert second["usage"]["prompt_tokens_details"] == {"cached_tokens": known // 16 * 16}
        assert server.metric("vllm:prefix_cache_hits_total") == known // 16 * 16


def test_a_full_queue_answers_503(start: Start) -> None:
    with start("--base-s", "0.05", "--max-num-seqs", "1", "--max-queue", "1") as server:
        with server.send_only("running", ignore_eos=True):
            wait_until(lambda: server.metric("vllm:num_requests_running") == 1)
            with server.send_only("waiting", max_tokens=1):
                wait_until(lambda: server.metric("vllm:num_requests_waiting") == 1)
                answer = server.stream()
        assert answer.status == 503
        assert answer.json["error"]["message"].startswith("The engine is currently busy")
        assert server.metric("vllm:admission_rejections_total") == 1
        outcomes = [server.truth(name)["outcome"] for name in ("running", "waiting", answer.headers["x-request-id"])]
        assert outcomes == ["disconnected", "disconnected", "rejected"]


def test_a_client_that_hangs_up_frees_its_sequence(start: Start) -> None:
    with start("--base-s", "0.01", "--max-num-seqs", "1") as server:
        with server.send_only("gone", ignore_eos=True) as sock:
            received = b""
            while received.count(b"data:") < 4:
                received += sock.recv(65536)
            assert server.metric("vllm:num_requests_running") == 1
        row = server.truth("gone")
        assert (row["outcome"], row["finish_reason"]) == ("disconnected", None)
        assert 3 <= row["output_tokens"] < 1000
        assert server.metric("vllm:num_requests_running") == server.metric("vllm:kv_cache_usage_perc") == 0
        assert len(server.stream(max_tokens=2, ignore_eos=True).texts) == 2
        # by now the iteration is over that ran when the client left: its token was dropped, not counted
        assert server.metric("vllm:generation_tokens_total") == row["output_tokens"] + 2


def test_one_connection_serves_many_requests(simulator: Running) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=WAIT_S)) as connection:
        sockets = set()
        for stream in (True, False, True):
            body = {"messages": [{"role": "user", "content": "x"}], "stream": stream, "max_tokens": 2}
            connection.request("POST", "/v1/chat/completions", json.dumps(body).encode())
            assert connection.getresponse().read()
            sockets.add(id(connection.sock))
        assert len(sockets) == 1
        assert connection.sock is not None


def test_a_stop_in_mid_answer_is_in_the_truth_log(start: Start) -> None:
    with start("--base-s", "0.05") as server, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.stream, ignore_eos=True, max_tokens=2000, headers={"X-Request-Id": "cut"})
        wait_until(lambda: server.metric("vllm:generation_tokens_total") > 1)
        server.process.terminate()
        assert waiting.result(WAIT_S).broken
        assert server.truth("cut")["outcome"] == "shutdown"


def test_ctrl_c_stops_it_without_a_traceback() -> None:
    command = [sys.executable, "-m", "simulator", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("simulator listening")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=WAIT_S)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--max-num-seqs", "0"], "max_num_seqs must be at least 1"),
        (["--fault", "gremlins"], "gremlins"),
        (["--fault", "stall:seconds=soon"], "seconds"),
        (["--port", "99999"], "cannot listen"),
        (["--truth-log", "/nonexistent/truth.jsonl", "--port", "0"], "/nonexistent/truth.jsonl"),
    ],
)
@pytest.mark.timeout(10)
def test_wrong_flags_are_a_sentence_not_a_traceback(
    flags: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("simulator: ")
    assert says in line
