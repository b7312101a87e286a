"""Each fault once, over a real socket, as a client sees it and as the truth log tells it."""

import contextlib
import http.client
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from served_simulator import FAST, Answer, Running, wait_until

from simulator.faults import FaultKind, parse_rule

Start = Callable[..., contextlib.AbstractContextManager[Running]]


def faulty(server: Running, fault: dict[str, Any], **fields: Any) -> tuple[Answer, dict[str, Any]]:
    """A streamed answer of 12 tokens with `fault`, and its truth line."""
    request_id = f"{fault}{fields}"
    headers = {"X-Request-Id": request_id}
    answer = server.stream(headers=headers, ignore_eos=True, fault=fault, **{"max_tokens": 12, **fields})
    return answer, server.truth(request_id)


@pytest.mark.parametrize("code", [401, 429, 500, 503])
def test_status(simulator: Running, code: int) -> None:
    answer, row = faulty(simulator, {"kind": "status", "code": code})
    assert (answer.status, answer.json["error"]["code"]) == (code, code)
    assert answer.headers.get("retry-after") == ("1" if code == 429 else None)
    assert (row["outcome"], row["http_status"], row["output_tokens"]) == ("status", code, None)


def test_status_with_retry_after(simulator: Running) -> None:
    answer, _ = faulty(simulator, {"kind": "status", "code": 503, "retry_after_s": 7})
    assert answer.headers["retry-after"] == "7"


def test_error_in_mid_stream(simulator: Running) -> None:
    answer, row = faulty(simulator, {"kind": "error", "code": 503, "after": 4})
    assert answer.status == 200
    assert len(answer.texts) == len(row["chunk_ns"]) == 4
    assert (answer.chunks[-1]["error"]["code"], answer.data[-1]) == (503, "[DONE]")
    assert not answer.broken
    assert (row["outcome"], row["finish_reason"]) == ("error", None)


def test_disconnect_in_mid_stream(simulator: Running) -> None:
    answer, row = faulty(simulator, {"kind": "disconnect", "after": 5})
    assert answer.broken
    assert (len(answer.texts), answer.finish_reasons, "[DONE]" in answer.data) == (5, [], False)
    assert (row["outcome"], len(row["chunk_ns"])) == ("disconnect", 5)


def test_reset_in_mid_stream(simulator: Running) -> None:
    with pytest.raises(ConnectionResetError):
        simulator.stream(headers={"X-Request-Id": "reset"}, fault={"kind": "reset"})
    assert simulator.truth("reset")["outcome"] == "reset"


def test_truncate_ends_properly_but_says_nothing(simulator: Running) -> None:
    answer, row = faulty(simulator, {"kind": "truncate"})
    assert not answer.broken
    assert (len(answer.texts), answer.finish_reasons, "[DONE]" in answer.data) == (3, [], False)
    assert row["outcome"] == "truncate"


def test_a_cut_later_than_the_answer_still_happens(simulator: Running) -> None:
    answer, _ = faulty(simulator, {"kind": "truncate", "after": 1000})
    assert (len(answer.texts), answer.finish_reasons) == (11, [])


def test_a_cut_frees_the_sequence_and_the_rest_is_never_generated(simulator: Running) -> None:
    _, row = faulty(simulator, {"kind": "error", "after": 2})
    assert row["output_tokens"] < 12
    assert simulator.metric("vllm:num_requests_running") == simulator.metric("vllm:kv_cache_usage_perc") == 0


def test_stall(simulator: Running) -> None:
    answer, row = faulty(simulator, {"kind": "stall", "after": 6, "seconds": 0.3})
    gaps = [later - earlier for earlier, later in itertools.pairwise(row["chunk_ns"])]
    assert gaps.index(max(gaps)) == 5
    assert max(gaps) >= 0.3e9
    assert (len(answer.texts), row["outcome"], row["finish_reason"]) == (12, "stall", "length")


def test_stall_before_the_first_chunk(simulator: Running) -> None:
    _, row = faulty(simulator, {"kind": "stall", "after": 0, "seconds": 0.2})
    assert row["chunk_ns"][0] - row["arrived_at"] * 1e9 >= 0.2e9


def test_role_early(start: Start) -> None:
    with start("--base-s", "0.2") as server:
        _, usual = faulty(server, {"kind": "no_done"}, max_tokens=2)
        answer, early = faulty(server, {"kind": "role_early"}, max_tokens=2)
    assert usual["chunk_ns"][0] - usual["role_ns"] < usual["role_ns"] - usual["arrived_at"] * 1e9
    assert early["chunk_ns"][0] - early["role_ns"] > early["role_ns"] - early["arrived_at"] * 1e9
    assert [chunk["choices"][0]["delta"].get("role") for chunk in answer.chunks[:2]] == ["assistant", None]


def test_multi_token(simulator: Running) -> None:
    answer, row = faulty(simulator, {"kind": "multi_token", "tokens": 5})
    assert (row["chunk_tokens"], row["output_tokens"]) == ([5, 5, 2], 12)
    assert len(answer.texts) == 3
    assert answer.chunks[-1]["usage"]["completion_tokens"] == 12


def test_no_usage(simulator: Running) -> None:
    answer, _ = faulty(simulator, {"kind": "no_usage"})
    assert not any("usage" in chunk for chunk in answer.chunks)
    assert answer.data[-1] == "[DONE]"


def test_no_done(simulator: Running) -> None:
    answer, _ = faulty(simulator, {"kind": "no_done"})
    assert "[DONE]" not in answer.data
    assert (answer.finish_reasons, answer.broken) == (["length"], False)


def test_early_stop(simulator: Running) -> None:
    answer, row = faulty(simulator, {"kind": "early_stop", "after": 4})
    assert (len(answer.texts), answer.finish_reasons) == (4, ["stop"])
    assert answer.chunks[-1]["usage"]["completion_tokens"] == row["output_tokens"] == 5  # with the one that ends it


def test_empty(simulator: Running) -> None:
    answer, row = faulty(simulator, {"kind": "empty"})
    assert (answer.texts, answer.finish_reasons) == ([], ["stop"])
    assert (row["chunk_ns"], row["output_tokens"], row["outcome"]) == ([], 1, "empty")


def test_abort(simulator: Running) -> None:
    answer, row = faulty(simulator, {"kind": "abort", "after": 4})
    assert (len(answer.texts), answer.finish_reasons, row["output_tokens"]) == (4, ["abort"], 4)


def test_every_kind_is_tried_in_this_file() -> None:
    tried = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {kind for kind in FaultKind if not any(name.startswith(kind) for name in tried)} == set()


def test_faults_can_be_combined(simulator: Running) -> None:
    fault = [{"kind": "multi_token", "tokens": 4}, {"kind": "no_usage"}, {"kind": "error", "after": 2}]
    answer, row = faulty(simulator, fault)  # type: ignore[arg-type]
    assert (len(answer.texts), row["chunk_tokens"]) == (2, [4, 4])
    assert "error" in answer.chunks[-1]
    assert row["faults"] == ["multi_token", "no_usage", "error"]


def test_answers_that_are_not_streamed_fail_too(simulator: Running) -> None:
    broken = simulator.chat(max_tokens=3, fault={"kind": "error"})
    assert (broken.status, broken.json["error"]["code"]) == (500, 500)
    with pytest.raises(json.JSONDecodeError):
        _ = simulator.chat(max_tokens=3, fault={"kind": "truncate"}).json
    assert "usage" not in simulator.chat(max_tokens=3, fault={"kind": "no_usage"}).json
    with pytest.raises(http.client.RemoteDisconnected):
        simulator.chat(max_tokens=3, fault={"kind": "disconnect"})


@pytest.mark.parametrize(("after", "written"), [(1, 1), (1000, 2)])
def test_a_client_that_leaves_during_a_stall_is_noticed_at_once(simulator: Running, after: int, written: int) -> None:
    fault = {"kind": "stall", "after": after, "seconds": 600}
    with simulator.send_only(f"left-{after}", fault=fault, max_tokens=3, ignore_eos=True) as sock:
        received = b""
        while received.count(b"data:") < 1 + written:
            received += sock.recv(65536)
    row = simulator.truth(f"left-{after}")
    assert (row["outcome"], len(row["chunk_ns"]), row["finish_ns"]) == ("disconnected", written, None)
    assert simulator.metric("vllm:num_requests_running") == 0


def test_rules_of_the_command_line(start: Start) -> None:
    with start(*FAST, "--fault", "status:code=429,every=3", "--fault", "early_stop:after=1,every=2") as server:
        answers = [server.stream(str(i), max_tokens=4, ignore_eos=True) for i in range(6)]
        assert [answer.status for answer in answers] == [200, 200, 429, 200, 200, 429]
        assert [len(answer.texts) for answer in answers if answer.status == 200] == [4, 1, 1, 4]
        rows = wait_until(lambda: rows if len(rows := server.rows()) == 6 else None)
        assert [row["outcome"] for row in rows] == ["ok", "early_stop", "status", "early_stop", "ok", "status"]


def test_a_share_is_about_that_share_and_repeats() -> None:
    def draw() -> list[bool]:
        rule = parse_rule("reset:0.2", seed=3)
        return [rule.hits() for _ in range(1000)]

    assert draw() == draw()
    assert 150 < sum(draw()) < 250


@pytest.mark.parametrize(
    "text", ["", "nothing", "stall:seconds=x", "stall:0", "stall:share=2", "stall:every=0", "stall:x=1"]
)
def test_a_wrong_rule_says_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="fault"):
        parse_rule(text, seed=0)
