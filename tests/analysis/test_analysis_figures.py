"""The figures, against sums done on paper."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_on_paper import T0, cancelled, failed, ok, step, write_run

from analysis import names
from analysis.events import Events
from analysis.pipeline import Analysis, analyse
from analysis.steady import windows
from tokenswarm import metrics
from tokenswarm.record import Caution, RequestRecord, StepRecord, TokensFrom


def row(folder: Path, requests: list[RequestRecord], **more: Any) -> dict[str, Any]:
    """The summary of a run of one step."""
    (found,) = analyse(write_run(folder, requests, **more)).summary.to_dict("records")
    return found


def test_three_requests_on_paper(tmp_path: Path) -> None:
    """a: sent 1 s, chunks at +100, 120, 160 ms. b: sent 2 s, +200, 230 ms. c: failed after one chunk at +50 ms."""
    found = row(
        tmp_path,
        [ok("a", 1, [100, 120, 160]), ok("b", 2, [200, 230]), failed("c", 3, 60, [50])],
    )
    assert found["requests_sent"] == 3
    assert (found["requests_ok"], found["requests_failed"], found["requests_cancelled"]) == (2, 1, 0)
    assert found["error_ratio"] == pytest.approx(1 / 3)
    assert found["ttft_mean_s"] == pytest.approx(0.150)
    assert (found["ttft_n"], found["ttft_left_out"]) == (2, 1)
    assert found["itl_mean_s"] == pytest.approx(0.030)  # 20, 40, 30 ms
    assert (found["itl_n"], found["itl_max_s"], found["itl_left_out"]) == (3, pytest.approx(0.040), 1)
    assert found["tpot_mean_s"] == pytest.approx(0.030)  # 60 / 2 and 30 / 1 ms
    assert found["e2e_mean_s"] == pytest.approx(0.195)
    assert found["output_tokens_per_s"] == pytest.approx(6 / 10)  # the failed one's chunk arrived too
    assert found["total_tokens_per_s"] == pytest.approx((6 + 20) / 10)
    assert found["requests_per_s"] == pytest.approx(2 / 10)
    assert found["observed_concurrency"] == pytest.approx((0.160 + 0.230 + 0.060) / 10)
    assert found["tokens_per_chunk"] == 1


def test_events_count_where_they_fall_whoever_sent_them(tmp_path: Path) -> None:
    """One request over two steps: 3 chunks in the first window, 2 in the second; the gap at the seam is the second's."""
    straddles = ok("a", 9.9, [50, 60, 70, 150, 250])
    steps = [step(1, 1, 0, 10), step(2, 2, 10, 20)]
    first, second = analyse(write_run(tmp_path, [straddles], steps)).summary.to_dict("records")
    assert (first["output_tokens_per_s"], second["output_tokens_per_s"]) == (pytest.approx(0.3), pytest.approx(0.2))
    assert (first["itl_mean_s"], second["itl_mean_s"]) == (pytest.approx(0.010), pytest.approx(0.090))
    assert (first["ttft_n"], second["ttft_n"]) == (1, 0)
    assert (first["requests_sent"], second["requests_sent"]) == (1, 0)
    assert (first["requests_censored"], first["e2e_n"]) == (1, 0)  # still open when its window closed
    assert first["observed_concurrency"] == pytest.approx(0.1 / 10)
    assert second["observed_concurrency"] == pytest.approx(0.15 / 10)
    assert (first["requests_per_s"], second["requests_per_s"]) == (0, pytest.approx(0.1))


def test_the_first_gap_begins_at_the_first_output(tmp_path: Path) -> None:
    found = row(tmp_path, [ok("a", 1, [2200, 2220, 2240, 2260])])
    assert found["ttft_max_s"] == pytest.approx(2.2)
    assert (found["itl_mean_s"], found["itl_n"], found["tpot_max_s"]) == (pytest.approx(0.02), 3, pytest.approx(0.02))


def test_tpot_of_one_token_does_not_exist(tmp_path: Path) -> None:
    requests = [ok("a", 1, [50]), ok("b", 2, [60, 150], 10), ok("c", 3, [40, 160], 5)]
    analysis = analyse(write_run(tmp_path, requests))
    assert analysis.requests.tpot_us.tolist() == pytest.approx([math.nan, 10_000, 30_000], nan_ok=True)
    (found,) = analysis.summary.to_dict("records")
    assert (found["tpot_mean_s"], found["tpot_n"], found["tpot_left_out"]) == (pytest.approx(0.020), 2, 1)


def test_the_rate_of_a_user_is_that_of_decoding(tmp_path: Path) -> None:
    requests = [ok(f"r{i}", i / 10, [2000, 3000], 51) for i in range(10)]
    found = row(tmp_path, requests)
    assert found["user_tokens_per_s_p50"] == pytest.approx(50.0)
    assert found["e2e_p50_s"] == pytest.approx(3.0)


def test_each_step_has_its_own_figures(tmp_path: Path) -> None:
    counts = [(1, 10, 100), (5, 50, 200), (20, 40, 900)]
    steps, requests = [], []
    for index, (users, number, ms) in enumerate(counts):
        steps.append(step(index + 1, users, index * 100, index * 100 + 100))
        requests += [ok(f"{index}-{i}", index * 100 + i, [ms]) for i in range(number)]
    summary = analyse(write_run(tmp_path, requests, steps, step_time_s=100)).summary
    assert summary.e2e_p50_s.tolist() == pytest.approx([0.1, 0.2, 0.9])
    assert summary.requests_sent.tolist() == [10, 50, 40]


def test_the_window_is_not_the_last_seconds(tmp_path: Path) -> None:
    requests = [ok(f"a{i}", i, [1000]) for i in range(50)] + [ok(f"b{i}", 50 + i, [100]) for i in range(10)]
    assert row(tmp_path, requests, step_time_s=62)["e2e_p50_s"] == pytest.approx(1.0)


def test_windows_begin_when_all_users_are_up_and_are_equally_long(tmp_path: Path) -> None:
    """50 users at 5 a second take 10 s: none of the step's time is lost, none of the ramp is counted."""
    steps = [step(1, 5, 1, 31, started_s=0), step(2, 50, 41, 71, started_s=31)]
    found = analyse(write_run(tmp_path, [ok("ramp", 35, [10]), ok("in", 50, [10])], steps, step_time_s=30, warmup_s=5))
    assert found.summary.window_length_s.tolist() == [25, 25]
    assert found.summary.window_start_s.tolist() == [6, 46]
    assert found.requests.in_window.tolist() == [False, True]
    assert not found.summary.window_short.any()


def test_a_step_cut_short_says_so(tmp_path: Path) -> None:
    steps = [step(1, 1, 0, 10), step(2, 2, 10, 14), step(3, 3, 14, 15)]
    summary = analyse(write_run(tmp_path, [ok("a", 3, [10])], steps, step_time_s=10, warmup_s=2)).summary
    assert summary.window_length_s.tolist() == pytest.approx([8, 2, math.nan], nan_ok=True)
    assert summary.window_short.tolist() == [False, True, True]
    assert "the step was cut short: a window of 2 s instead of 8 s" in summary.reasons[1]
    assert summary.reasons[2] == "no steady window: it ended within its warm-up"
    assert summary.verdict.tolist()[1:] == ["invalid", "invalid"]


def test_a_run_killed_in_its_step(tmp_path: Path) -> None:
    from analysis.load import load

    run = load(write_run(tmp_path, [ok("a", 3, [10])], [step(1, 1, 0, None)], ended_at=1_761_442_206.0))
    window = windows(run.steps, run.info)
    assert (window.end_us - window.begin_us).tolist() == [6_000_000]
    assert window.short.tolist() == [True]


def test_open_requests_are_censored_not_dropped(tmp_path: Path) -> None:
    lengths_s = [2, 2, 2, 3, 3, 12, 15, 20]
    requests = [ok(f"r{i}", 0, [s * 1000]) for i, s in enumerate(lengths_s)]
    found = row(tmp_path, requests)
    assert (found["requests_ok"], found["e2e_n"], found["requests_censored"]) == (8, 5, 3)
    assert math.isnan(found["e2e_p99_s"])
    assert found["verdict"] == "suspect"
    assert "37.5% of the requests were still open when the window closed: E2E p95 is withheld" in found["reasons"]


def test_kaplan_meier_on_paper(tmp_path: Path) -> None:
    """Sent at 0…9 s, 20 each, all 1 s long but those of 7, 8, 9 s: 4 s. Open at 10 s: the latter, for 3, 2 and 1 s.

    S(1) = 1 − 140 / 200 = 0.3 (the 20 watched for 1 s are at risk there), so the median is 1 s. Nothing reaches 95 %.
    """
    requests = [ok(f"{s}-{i}", s, [4000 if s > 6 else 1000]) for s in range(10) for i in range(20)]
    found = row(tmp_path, requests)
    assert (found["e2e_n"], found["requests_censored"]) == (140, 60)
    assert found["e2e_p50_s"] == pytest.approx(1.0)
    assert math.isnan(found["e2e_p95_s"])
    assert (
        "e2e_p95, e2e_p99: 60 of 200 were still open when the window closed" not in found["withheld"]
    )  # p99: n too small
    assert "e2e_p95: 60 of 200 were still open when the window closed" in found["withheld"]
    # 140 × 1 s, then 0.3 of the mass waits on up to the longest watched, 3 s: 1 + 0.3 × 2
    assert found["e2e_mean_s"] == pytest.approx(1.6)


def test_a_cancelled_request_was_seen_as_far_as_we_watched(tmp_path: Path) -> None:
    found = row(tmp_path, [ok("a", 1, [100, 200]), cancelled("b", 2, 500, [300, 340]), cancelled("c", 3, 9000)])
    assert (found["ttft_n"], found["ttft_left_out"], found["ttft_max_s"]) == (2, 0, pytest.approx(0.3))
    assert (found["itl_n"], found["itl_mean_s"]) == (2, pytest.approx(0.070))
    assert (found["e2e_n"], found["requests_censored"]) == (1, 2)
    assert found["error_ratio"] == 0
    assert found["output_tokens_per_s"] == pytest.approx(4 / 10)
    assert "50.0% of the chunks count as one token each: nobody told their tokens" in found["notes"]


def test_failed_requests_are_in_no_latency(tmp_path: Path) -> None:
    requests = [ok(f"a{i}", i / 10, [ms]) for i, ms in enumerate((1000, 1100, 1100, 1200, 1200, 1300))]
    requests += [failed(f"b{i}", i / 10, ms) for i, ms in enumerate((5, 5, 6, 6))]
    found = row(tmp_path, requests)
    assert found["e2e_p50_s"] == pytest.approx(1.15)
    assert found["e2e_left_out"] == 4


def test_percentiles_of_few_samples_are_withheld(tmp_path: Path) -> None:
    found = row(tmp_path, [ok(f"r{i}", i, [ms]) for i, ms in enumerate((100, 110, 120, 130, 501))])
    assert math.isnan(found["ttft_p95_s"])
    assert math.isnan(found["ttft_p50_s"])
    assert "ttft_p95, ttfo_p95, e2e_p95: n too small: 5, needs 59" in found["withheld"]
    assert found["ttft_max_s"] == pytest.approx(0.501)


def test_throughput_counts_completions_of_the_window(tmp_path: Path) -> None:
    requests = [ok(f"r{i}", 0, [(10 + i) * 1000]) for i in range(6)]
    found = row(tmp_path, requests, steps=[step(1, 6, 10, 16, started_s=0)], step_time_s=6)
    assert found["requests_per_s"] == pytest.approx(1.0)


def test_warm_up_rows_are_kept_and_not_measured(tmp_path: Path) -> None:
    ttft_ms = [700, 420, 65, 60, 62, 61, 63, 60]
    found = analyse(write_run(tmp_path, [ok(f"r{i}", i, [ms], user="u") for i, ms in enumerate(ttft_ms)], warmup_s=2))
    assert found.summary.ttft_p50_s.tolist() == pytest.approx([0.0615])
    assert found.requests.in_window.tolist() == [False, False, *[True] * 6]
    assert found.requests.first_of_user.tolist() == [True, *[False] * 7]


def test_the_start_burst_is_shown_apart(tmp_path: Path) -> None:
    found = row(tmp_path, [ok("a", 0, [900], user="u"), ok("b", 1, [100], user="u"), ok("c", 2, [100], user="u")])
    assert (found["requests_start_burst"], found["ttft_start_burst_mean_s"]) == (1, pytest.approx(0.9))
    assert "33.3% of the requests are the first of their user: the warm-up is too short" in found["reasons"]


def test_tokens_of_chunks_told_spread_or_counted(tmp_path: Path) -> None:
    told = ok("a", 9, [100, 200, 1500], 7, chunk_tokens=(1, 2, 4))  # 3 tokens inside
    spread = ok("b", 9, [100, 200, 1500, 1600], 8)  # 2 a chunk, 2 chunks inside
    counted = ok("c", 9, [100, 1500], None, output_tokens=None, tokens_from=TokensFrom.CHUNKS)  # 1 inside
    found = row(tmp_path, [told, spread, counted])
    assert found["output_tokens_per_s"] == pytest.approx((3 + 4 + 1) / 10)
    assert (found["itl_per_token_n"], found["itl_per_token_mean_s"]) == (2, pytest.approx(0.050))


def test_hidden_reasoning_did_not_arrive(tmp_path: Path) -> None:
    found = row(tmp_path, [ok("a", 1, [100, 200], 52, reasoning_tokens=50, warnings=(Caution.HIDDEN_REASONING,))])
    assert found["output_tokens_per_s"] == pytest.approx(2 / 10)
    assert found["tpot_n"] == 0


def test_a_whole_answer_has_an_end_and_tokens_but_no_pace(tmp_path: Path) -> None:
    whole = ok("a", 1, [], 30, ended_us=400_000, warnings=(Caution.NOT_STREAMED,))
    found = row(tmp_path, [whole])
    assert (found["e2e_n"], found["ttft_n"], found["itl_n"], found["tpot_n"]) == (1, 0, 0, 0)
    assert found["e2e_max_s"] == pytest.approx(0.4)
    assert found["output_tokens_per_s"] == pytest.approx(3.0)
    assert found["total_tokens_per_s"] == pytest.approx(4.0)


def test_a_stopped_request_has_a_prompt_too(tmp_path: Path) -> None:
    found = row(tmp_path, [ok("a", 1, [100]), cancelled("b", 2, 500, [300])])
    assert found["total_tokens_per_s"] == pytest.approx((2 + 20) / 10)
    assert "prompts of 1 request that we stopped are taken to be as long as the others'" in found["notes"]


def test_rates_of_the_window_and_of_the_wall_time(tmp_path: Path) -> None:
    """Completions at 10…15 s of a step of 20 s whose window is [10 s, 16 s): one a second, and 6 in 20 s."""
    requests = [ok(f"r{i}", 0, [(10 + i) * 1000], 4) for i in range(6)]
    steps = [step(1, 6, 10, 16, started_s=0)]
    found = row(tmp_path, requests, steps=steps, step_time_s=6, ended_at=T0 + 20)
    assert (found["requests_per_s"], found["requests_per_s_wall"]) == (pytest.approx(1.0), pytest.approx(0.3))
    assert found["output_tokens_per_s_wall"] == pytest.approx(24 / 20)
    assert math.isnan(row(tmp_path / "unended", requests, steps=steps)["requests_per_s_wall"])


def test_the_start_burst_has_its_own_ttft_wherever_it_was_sent(tmp_path: Path) -> None:
    requests = [ok("a", 0, [900], user="u"), ok("b", 0, [700], user="v"), ok("c", 5, [100], user="u")]
    found = row(tmp_path, requests, warmup_s=2)
    assert (found["requests_start_burst"], found["ttft_n"], found["ttft_start_burst_n"]) == (0, 1, 2)
    assert (found["ttft_start_burst_mean_s"], found["ttft_start_burst_max_s"]) == (
        pytest.approx(0.8),
        pytest.approx(0.9),
    )


def test_open_loop_counts_from_the_schedule(tmp_path: Path) -> None:
    """Due at 9.8 s, sent at 10.1 s: in the first step, and all waiting since 9.8 s is its own."""
    late = ok("a", 10.1, [50, 70], scheduled_at=T0 + 9.8)
    steps = [step(1, 1, 0, 10), step(2, 1, 10, 20)]
    analysis = analyse(write_run(tmp_path, [late, ok("b", 5, [50], scheduled_at=T0 + 5)], steps))
    first, second = analysis.summary.to_dict("records")
    assert (first["requests_sent"], second["requests_sent"]) == (2, 0)
    assert first["ttft_max_s"] == pytest.approx(0.350)
    assert analysis.requests.e2e_us.tolist() == [50_000, 370_000]
    assert analysis.requests.tpot_us.tolist()[1] == 20_000
    assert second["output_tokens_per_s"] == pytest.approx(2 / 10)  # its tokens arrived here
    assert metrics.derive(late)["ttft"] == pytest.approx(0.350)


def test_rows_are_put_on_the_masters_clock(tmp_path: Path) -> None:
    """w1's clock is 2 s ahead: what it calls 11 s is 9 s."""
    steps = [step(1, 1, 0, 10), step(2, 1, 10, 20)]
    clients = {"w1": {"clock_offset_s": 2.0}, "w2": {"clock_offset_s": None}}
    requests = [ok("a", 11, [50]), ok("b", 11, [50], worker="w2")]
    analysis = analyse(write_run(tmp_path, requests, steps, clients=clients))
    assert analysis.requests.sent_us.tolist() == [round((T0 + s) * 1e6) for s in (9, 11)]
    assert analysis.summary.requests_sent.tolist() == [1, 1]
    assert analysis.run.notes == ("the clock of w2 was not compared with the master's, which the steps go by",)


def test_unknown_prompt_tokens_are_no_zeros(tmp_path: Path) -> None:
    found = row(tmp_path, [ok("a", 1, [100], prompt_tokens=None)])
    assert math.isnan(found["total_tokens_per_s"])
    assert "prompt tokens unknown for 1 of 1 request" in found["notes"]


def test_goodput_is_of_completions_attainment_of_all_sent(tmp_path: Path) -> None:
    requests = [ok("fast", 1, [100, 120]), ok("late", 2, [900, 920]), ok("one token", 3, [100]), failed("bad", 4, 5)]
    found = row(tmp_path, requests, slos={"ttft_p95": 0.5, "tpot": 0.05, "error_ratio": 0.01})
    assert found["goodput_per_s"] == pytest.approx(2 / 10)
    assert found["slo_attainment"] == pytest.approx(2 / 4)
    assert "goodput_per_s" not in row(tmp_path / "no slos", requests)


def test_truncated_answers(tmp_path: Path) -> None:
    found = row(tmp_path, [ok("a", 1, [100], finish_reason="length"), ok("b", 2, [100]), failed("c", 3, 1)])
    assert found["truncated_ratio"] == pytest.approx(1 / 2)


def test_vectorised_gaps_are_those_of_the_definition(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    requests = []
    for i in range(40):
        count = int(rng.integers(0, 9))
        times = np.cumsum(rng.integers(1, 100, count)).tolist()
        tokens = rng.integers(0, 4, count).tolist()
        more = {"chunk_tokens": tuple(tokens)} if i % 2 and count else {}
        requests.append(ok(f"r{i}", i / 10, times, **more))
    analysis = analyse(write_run(tmp_path, requests))
    from analysis.events import inside

    found: Events = inside(analysis.requests, analysis.run.chunks, *_whole(analysis))
    assert sorted(found.gaps_us.tolist()) == sorted(gap for one in requests for gap in metrics.itl_us(one.chunk_us))
    expected = [gap for one in requests for gap in metrics.itl_per_token_us(one.chunk_us, one.chunk_tokens)]
    assert sorted(found.per_token_us()[0]) == pytest.approx(sorted(expected))
    for index, one in enumerate(analysis.requests.itertuples()):
        record = next(request for request in requests if request.request_id == one.request_id)
        derived = metrics.derive(record)
        for name in (names.TTFT, names.TPOT, names.E2E, names.TTFO):
            value = analysis.requests[f"{name}_us"].iloc[index] / 1e6
            assert value == pytest.approx(math.nan if derived[name] is None else derived[name], nan_ok=True)


def _whole(analysis: Analysis) -> tuple[int, int]:
    return int(analysis.requests.sent_us.min()), int(analysis.requests.end_us.max()) + 1


def test_a_step_that_never_settled_counts_nothing_of_what_went_on_all_through_it(tmp_path: Path) -> None:
    steps = [step(1, 1, 0, 5), StepRecord(step=2, target_users=2, started_at=T0 + 5, ended_at=T0 + 9)]
    summary = analyse(write_run(tmp_path, [ok("a", 4, [500, 2000, 3000])], steps, step_time_s=5)).summary
    assert summary.requests_sent.tolist() == [1, 0]
    assert summary.verdict[1] == "invalid"
