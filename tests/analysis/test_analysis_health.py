"""Verdicts: each reason on a run that has it, and none on a run that has not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_on_paper import T0, cancelled, failed, health, ok, step, write_run

from analysis.pipeline import analyse
from tokenswarm.record import HealthRecord, RequestRecord, Stamp

Change = Callable[[list[RequestRecord], list[HealthRecord]], dict[str, Any]]


def sound(**more: Any) -> list[RequestRecord]:
    """One user who has a request in flight all the time, 100 in 10 s, and one before the window."""
    before = ok("first", -0.1, [10, 20, 90], user="u")
    return [before] + [ok(f"r{i}", i / 10, [10, 20, 90], user="u", **more) for i in range(100)]


def seconds(**more: Any) -> list[HealthRecord]:
    return [health(s, **more) for s in range(1, 11)]


def verdict(
    folder: Path, requests: list[RequestRecord], healths: list[HealthRecord], users: int = 1, **info: Any
) -> tuple[str, str]:
    steps = [step(1, users, 0, 10, started_s=-0.2)]
    (found,) = analyse(write_run(folder, requests, steps, healths, **info)).summary.to_dict("records")
    return found["verdict"], found["reasons"]


def test_a_sound_step_is_valid(tmp_path: Path) -> None:
    assert verdict(tmp_path / "with health", sound(), seconds()) == ("valid", "")
    assert verdict(tmp_path / "without", sound(), []) == ("valid", "")


@pytest.mark.parametrize(
    ("more", "expected", "reason"),
    [
        ({"lag_max_us": 25_000}, "suspect", "100% of the requests were read later than half the median ITL"),
        ({"coalesced": 1}, "invalid", "33.3% of the chunks were merged with the one before when they were read"),
        ({"stamp": Stamp.USER}, "suspect", "100% of the requests have arrival times taken by this process"),
        ({"cached_tokens": 3}, "suspect", "30% of the prompt tokens came from a warm prefix cache"),
        ({"prompt_tokens": 100, "cached_tokens": 96}, "invalid", "96% of the prompt tokens came from a warm prefix"),
        ({"first_answer_us": 5}, "invalid", "impossible times or counts in 100 of 100 rows: a measurement fault"),
        ({"ended_us": 5}, "invalid", "impossible times or counts in 100 of 100 rows"),
        ({"output_tokens": 5000}, "invalid", "impossible times or counts in 100 of 100 rows"),
    ],
)
def test_what_rows_show(tmp_path: Path, more: dict[str, Any], expected: str, reason: str) -> None:
    found, reasons = verdict(tmp_path, sound(**more), seconds())
    assert reason in reasons
    assert found == expected


def test_impossible_rows_are_flagged_not_dropped(tmp_path: Path) -> None:
    rows = sound()[:4] + sound(chunk_us=(90_000, 20_000, 10_000))[4:]
    run = analyse(write_run(tmp_path, rows, [step(1, 1, 0, 10)], seconds()))
    assert len(run.requests) == 101
    assert run.summary.requests_ok.tolist() == [100]
    assert "impossible times or counts in 97 of 100 rows" in run.summary.reasons[0]
    assert run.summary.verdict.tolist() == ["invalid"]


@pytest.mark.parametrize(
    ("cpu", "expected"), [(0.12, "valid"), (0.35, "valid"), (0.71, "valid"), (0.85, "suspect"), (0.97, "invalid")]
)
def test_client_cpu(tmp_path: Path, cpu: float, expected: str) -> None:
    found, reasons = verdict(tmp_path, sound(), seconds(cpu_ratio=cpu))
    assert found == expected
    assert ("client CPU" in reasons) == (expected != "valid")


@pytest.mark.parametrize(("moved_us", "expected"), [(50, "valid"), (-500, "suspect"), (20_000, "invalid")])
def test_a_clock_that_moved(tmp_path: Path, moved_us: int, expected: str) -> None:
    assert verdict(tmp_path, sound(), seconds(clock_step_us=moved_us))[0] == expected


@pytest.mark.parametrize(
    ("stolen", "expected"), [(None, "valid"), (0.01, "valid"), (0.06, "suspect"), (0.8, "suspect")]
)
def test_time_that_a_hypervisor_took(tmp_path: Path, stolen: float | None, expected: str) -> None:
    found, reasons = verdict(tmp_path, sound(), seconds(stolen_ratio=stolen))
    assert found == expected
    assert ("a hypervisor gave" in reasons) == (expected != "valid")


def test_users_and_concurrency_short_of_target(tmp_path: Path) -> None:
    found, reasons = verdict(tmp_path, sound(), seconds(), users=2)
    assert found == "invalid"
    assert "1.0 users were up instead of 2" in reasons
    assert "observed concurrency 0.9 is short of 2 users" in reasons


def test_users_are_summed_over_workers(tmp_path: Path) -> None:
    both = seconds(users=1) + seconds(users=1, worker="w2")
    assert "users were up" not in verdict(tmp_path, sound(), both, users=2)[1]


def test_a_worker_that_fell_silent(tmp_path: Path) -> None:
    lost = seconds() + [health(s, worker="w2", users=0) for s in (1, 2)]
    assert verdict(tmp_path, sound(), lost) == ("invalid", "worker w2 fell silent 8 s before the window closed")


def test_a_preflight_is_no_lost_worker(tmp_path: Path) -> None:
    assert verdict(tmp_path, sound(), [health(-3, worker="preflight"), *seconds()]) == ("valid", "")


def test_most_requests_failed(tmp_path: Path) -> None:
    rows = sound()[:38] + [failed(f"f{i}", 4 + i / 20, 3) for i in range(63)]
    found, reasons = verdict(tmp_path, rows, seconds())
    assert found == "invalid"
    assert "63.0% of the requests failed: latencies are those of the other 37.0%" in reasons


def test_nothing_was_answered(tmp_path: Path) -> None:
    found, reasons = verdict(tmp_path, [failed("a", 1, 3), cancelled("b", 2, 3)], seconds())
    assert found == "invalid"
    assert (
        "none of the requests sent in the window (2) was answered before it closed (1 failed, we stopped 1)" in reasons
    )


def test_user_stamps_of_a_late_client(tmp_path: Path) -> None:
    rows = sound(stamp=Stamp.USER, lag_max_us=None)
    found, reasons = verdict(tmp_path, rows, seconds(loop_lag_max_us=60_000))
    assert found == "invalid"
    assert "in 100% of the seconds the client was late by more than half the median ITL" in reasons


def test_a_window_without_a_request(tmp_path: Path) -> None:
    assert verdict(tmp_path, sound()[:1], seconds())[1].startswith("no request was sent in the window")


@pytest.mark.parametrize(("open_", "expected"), [(9, "valid"), (20, "suspect"), (55, "suspect"), (61, "invalid")])
def test_requests_still_open_at_the_close(tmp_path: Path, open_: int, expected: str) -> None:
    rows = sound()[: 101 - open_] + [ok(f"o{i}", 9.5, [10, 20, 900], user="u") for i in range(open_)]
    found, reasons = verdict(tmp_path, rows, seconds())
    assert found == expected
    assert (f"{open_ / 100:.1%} of the requests were still open when the window closed: E2E p95 is " in reasons) == (
        expected != "valid"
    )


def test_a_step_cut_short_by_an_interruption_is_suspect(tmp_path: Path) -> None:
    """3 s of a window of 10 s, most of its requests stopped with the run."""
    rows = sound()[:11] + [cancelled(f"c{i}", 1, 2000, [10, 20], user="u") for i in range(20)]
    steps = [step(1, 1, 0, 3, started_s=-0.2)]
    run = write_run(tmp_path, rows, steps, seconds()[:3], state="interrupted")
    (found,) = analyse(run).summary.to_dict("records")
    assert found["verdict"] == "suspect"
    assert "the step was cut short: a window of 3 s instead of 10 s" in found["reasons"]
    assert "66.7% of the requests were still open" in found["reasons"]


def test_a_warm_cache_that_was_asked_for(tmp_path: Path) -> None:
    rows = sound(prompt_tokens=100, cached_tokens=96)
    assert verdict(tmp_path / "asked", rows, seconds(), conditions={"prefix_sharing": True})[0] == "valid"
    assert verdict(tmp_path / "not", rows, seconds(), conditions={"prefix_sharing": False})[0] == "invalid"


def test_usage_against_the_tokenizer(tmp_path: Path) -> None:
    found, reasons = verdict(tmp_path / "prompts", sound(), seconds(), conditions={"prompt_tokens": 12})
    assert found == "suspect"
    assert "the server counts 10 tokens in a prompt made to have 12" in reasons
    found, reasons = verdict(tmp_path / "answers", sound(chunk_tokens=(1, 1, 2)), seconds())
    assert found == "suspect"
    assert "the server's usage says 300 output tokens, its running count 400" in reasons


@pytest.mark.parametrize(("late", "expected"), [(0, "valid"), (5, "suspect"), (20, "invalid")])
def test_requests_sent_later_than_scheduled(tmp_path: Path, late: int, expected: str) -> None:
    rows = sound()[:1]
    for i in range(100):
        rows.append(ok(f"r{i}", i / 10, [10, 20, 90], user="u", scheduled_at=T0 + i / 10 - 0.005 * (i < late)))
    found, reasons = verdict(tmp_path, rows, seconds())
    assert found == expected
    assert ("were sent later than scheduled, by up to 0.005 s" in reasons) == (late > 0)


def test_a_worker_without_any_file_was_lost(tmp_path: Path) -> None:
    clients = {"w1": {"clock_offset_s": 0.0}, "w2": {"clock_offset_s": 0.0}}
    found, reasons = verdict(tmp_path, sound(), seconds(), clients=clients)
    assert (found, reasons) == ("invalid", "worker w2 took part and left no row: its files are missing")
