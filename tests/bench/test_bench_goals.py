"""The statistics of the table, and what passes and what does not, on numbers that were made up."""

import copy
import itertools
from typing import Any

import pytest

from bench.__main__ import measure, notes, table
from bench.goals import Line, Verdict, judge_memory, lines
from bench.passes import Programs, passes
from bench.processes import Place
from bench.truth import Comparison, Token, quantiles_ms, read_token


def test_a_token_says_when_it_was_written_and_a_first_one_when_it_was_asked_for() -> None:
    assert read_token("123 ") == Token(123, None)
    assert read_token("100:123 ") == Token(123, 100)


@pytest.mark.parametrize("text", ["", "hello", "1 2 "])
def test_a_token_without_its_truth_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        read_token(text)


def test_errors_are_arrivals_minus_truth_and_ttft_errors_the_difference_of_both_waits() -> None:
    comparison = Comparison()
    # asked at 1000 and received at 1200; the first token was written at 5000, so the true TTFT is 3800
    wrong_by = comparison.add(1000, [5500, 6010], ["1200:5000 ", "6000 "])
    assert wrong_by == (5500 - 1000) - 3800
    assert list(comparison.errors_ns) == [500, 10]
    assert list(comparison.ttfts_ns) == [4500]
    assert list(comparison.true_ttfts_ns) == [3800]
    with pytest.raises(ValueError, match=r"shorter|longer"):
        comparison.add(0, [1], ["1:2 ", "3 "])
    with pytest.raises(ValueError, match="does not say when"):
        comparison.add(0, [1], ["3 "])


def test_an_arrival_before_its_truth_is_an_error_of_the_same_size() -> None:
    comparison = Comparison()
    comparison.add(0, [1_000_000], ["0:4000000 "])
    assert comparison.summary()["error_ms"]["p50"] == 3.0
    assert comparison.summary()["ttft_error_ms"]["max"] == 3.0


def test_quantiles_are_values_that_occurred() -> None:
    of_hundred = quantiles_ms([number * 1_000_000 for number in range(100, 0, -1)])
    assert of_hundred == {"p50": 50.0, "p99": 99.0, "max": 100.0, "samples": 100}
    assert quantiles_ms([7_000_000]) == {"p50": 7.0, "p99": 7.0, "max": 7.0, "samples": 1}


def test_memory_is_flat_if_its_last_third_is_like_the_second() -> None:
    warming = [(float(second), 50 + min(second, 10) * 5, second) for second in range(31)]
    assert judge_memory(warming).growth == 0
    assert judge_memory(warming).unparsed_most == 30
    growing = [(float(second), 100 + second, 0) for second in range(31)]
    assert judge_memory(growing).growth == pytest.approx(130 / 119 - 1)


def quantiles(p50: float, p99: float) -> dict[str, float]:
    return {"p50": p50, "p99": p99, "max": p99 * 2, "samples": 1000}


def good() -> dict[str, dict[str, Any]]:
    """Results in which every goal is just reached."""
    errors = {"error_ms": quantiles(0.02, 0.1), "ttft_error_ms": quantiles(0.1, 0.5), "cpu_us": 120.0}
    ours = {**errors, "untrue_ttfts": 0, "untrue_ttfts_flagged": 0, "coalesced_share": 0.01}
    results: dict[str, dict[str, Any]] = {
        f"ours-errors-{streams}": copy.deepcopy(ours) for streams in (1, 50, 200, 500)
    }
    results["ours-errors-500"] |= {
        "ttft_error_ms": quantiles(0.1, 5.0),
        "untrue_ttfts": 7,
        "untrue_ttfts_flagged": 7,
    }
    for streams in (200, 500):
        results[f"ours-cost-{streams}"] = {"cpu_us": 15.0}
        results[f"c-cost-{streams}"] = {"cpu_us": 5.0}
    for client, streams in itertools.product(("openai", "requests"), (50, 200)):
        results[f"{client}-errors-{streams}"] = copy.deepcopy(errors)
    lags = {"read_lag_max_ms": 1.0, "loop_lag_max_ms": 1.0}
    results["ours-sustained-500"] = {"tokens_per_s": 49_000.0, "coalesced_share": 0.01, **lags}
    results["ours-fast-errors-1"] = ours
    results["ours-fast-cost-1"] = {"cpu_cores": 0.9, "tokens_per_s": 13_900.0}
    results["c-fast-errors-1"] = {"error_ms": quantiles(0.01, 0.02), "coalesced_share": 0.0}
    results["c-sustained-500"] = {"coalesced_share": 0.0}
    results["ours-memory-200"] = {"memory": [(float(second), 100_000_000, 40_000) for second in range(10)]}
    results["ours-long-20"] = {"tokens": 10, "memory": [(0.0, 5_000, 0), (1.0, 6_000, 0), (2.0, 5_500, 0)]}
    return results


def judged(results: dict[str, dict[str, Any]]) -> list[Line]:
    return [line for line in lines(results) if line.verdict is not None]


def test_what_is_just_reached_passes() -> None:
    assert {line.verdict for line in judged(good())} == {Verdict.PASS}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ours-errors-1", {"error_ms": quantiles(0.021, 0.1)}),
        ("ours-errors-500", {"error_ms": quantiles(0.02, 0.11)}),
        ("ours-errors-50", {"ttft_error_ms": quantiles(0.1, 0.51)}),
        ("ours-errors-500", {"ttft_error_ms": quantiles(0.1, 5.1)}),
        ("ours-errors-500", {"untrue_ttfts_flagged": 6}),
        ("ours-cost-500", {"cpu_us": 15.1, "unused": 0}),
        ("c-cost-200", {"cpu_us": 4.9}),
        ("openai-errors-200", {"cpu_us": 119.0}),
        ("ours-sustained-500", {"tokens_per_s": 48_900.0}),
        ("ours-sustained-500", {"coalesced_share": 0.011}),
        ("ours-fast-errors-1", {"coalesced_share": 0.011}),
        ("ours-fast-errors-1", {"error_ms": quantiles(0.02, 0.11)}),
        ("ours-fast-cost-1", {"cpu_cores": 0.91}),
        ("ours-memory-200", {"memory": [(float(second), 100 + 2 * second, 0) for second in range(10)]}),
        ("ours-memory-200", {"memory": [(float(second), 100, 40_001) for second in range(10)]}),
        ("ours-long-20", {"tokens": 9}),
    ],
)
def test_what_is_not_reached_is_short_of_it(name: str, change: dict[str, Any]) -> None:
    results = good()
    results[name] = {**results[name], **change}
    short = [line for line in judged(results) if line.verdict is Verdict.SHORT]
    costs = name == "ours-cost-500"  # the same figure stands in a ratio too
    assert len(short) == (2 if costs else 1)


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (quantiles(0.03, 0.1), quantiles(0.03, 0.1), Verdict.FLOOR),
        (quantiles(0.033, 0.1), quantiles(0.03, 0.1), Verdict.FLOOR),
        (quantiles(0.034, 0.1), quantiles(0.03, 0.1), Verdict.SHORT),
        (quantiles(0.02, 0.2), quantiles(0.03, 0.1), Verdict.SHORT),
        (quantiles(0.02, 0.2), quantiles(0.01, 0.2), Verdict.FLOOR),
        (quantiles(0.02, 0.1), quantiles(0.03, 0.2), Verdict.PASS),
    ],
)
def test_what_a_c_client_does_not_reach_either_is_the_machines_limit(
    ours: dict[str, float], theirs: dict[str, float], verdict: Verdict
) -> None:
    results = good() | {"c-errors-1": {"error_ms": theirs, "ttft_error_ms": theirs}}
    results["ours-errors-1"]["error_ms"] = ours
    assert judged(results)[0].verdict is verdict


@pytest.mark.parametrize(
    ("share", "theirs", "verdict"), [(0.05, 0.045, "FLOOR"), (0.05, 0.03, "SHORT"), (0.02, 0, "SHORT")]
)
@pytest.mark.parametrize("kind", ["sustained-500", "fast-errors-1"])
def test_merging_is_judged_beside_the_c_clients(kind: str, share: float, theirs: float, verdict: str) -> None:
    results = good()
    results[f"ours-{kind}"] = results[f"ours-{kind}"] | {"coalesced_share": share}
    results[f"c-{kind}"] = results[f"c-{kind}"] | {"coalesced_share": theirs}
    (line,) = (line for line in judged(results) if line.verdict is not Verdict.PASS)
    assert (line.what, line.verdict) == ("merged before they were read", Verdict[verdict])


@pytest.mark.parametrize("name", sorted(good()))
def test_what_was_not_measured_is_no_pass(name: str) -> None:
    results = good()
    del results[name]
    assert len(judged(results)) == len(judged(good()))
    missing = [line for line in judged(results) if line.verdict is Verdict.NOT_MEASURED]
    only_beside = name.startswith("requests") or name in ("openai-errors-50", "c-fast-errors-1", "c-sustained-500")
    assert bool(missing) is not only_beside


def test_without_any_result_every_goal_still_has_its_line() -> None:
    assert {line.verdict for line in lines({})} == {Verdict.NOT_MEASURED}
    assert len(lines({})) == len(judged(good()))


def test_the_others_stand_beside_ours_as_ratios() -> None:
    results = good()
    results["openai-errors-50"]["error_ms"] = quantiles(20.0, 250.0)
    beside = [line for line in lines(results) if line.what.startswith("openai SDK loop, 50")]
    assert beside[0].goal == "p99 2,500 x ours"
    assert any(line.measured.startswith("8.0 x") for line in lines(results))


def test_the_table_is_a_hundred_columns_wide_at_most_and_keeps_its_columns_apart() -> None:
    results = good()
    for client in ("openai", "requests"):
        results[f"{client}-errors-200"]["error_ms"] = quantiles(12_345.0, 23_456.0)
    for shown in (lines(results), lines({})):
        text = table(shown)
        assert max(map(len, text.splitlines())) <= 100
        for line in shown:
            for cell in (line.what, line.measured, line.goal, line.verdict or ""):
                assert not cell or f" {cell} " in text.replace("\n", " ") + " "


def test_doubts_about_the_emitter_are_told() -> None:
    calm = {"ticks": 1000, "late_ticks": 20, "blocked": 0}
    assert notes({"a": {"emitter": calm}}) == []
    said = notes({"b": {"emitter": calm | {"late_ticks": 21, "blocked": 3}}, "c": {"not_measured": "no cc"}})
    assert len(said) == 3
    assert "no cc" in said[0]
    assert notes({"a": {"emitter": calm, "stolen_s": 0.01}}) == []
    (stolen,) = notes({"a": {"emitter": calm, "stolen_s": 0.03}})
    assert "30 ms" in stolen


def test_quick_passes_are_the_same_goals_with_fewer_samples() -> None:
    full, quick = ({one.name: one for one in passes(quick)} for quick in (False, True))
    verdicts = [lines({name: found for name, found in good().items() if name in some}) for some in (full, quick)]
    assert [[line for line in shown if line.verdict] for shown in verdicts] == [judged(good())] * 2
    assert set(quick) <= set(full)
    assert sum(one.expected_s for one in passes(True)) < 30
    assert sum(one.expected_s for one in passes(False)) < 240


def test_memory_alone_may_be_watched_for_an_hour() -> None:
    (one,) = passes(False, memory_s=3600.0)
    assert (one.name, round(one.expected_s / 60)) == ("ours-memory-200", 60)


@pytest.mark.parametrize(("stolen_s", "kept"), [((0.5, 0.1), 0.1), ((0.5, 0.6), 0.5), ((0.0, 9.0), 0.0)])
def test_a_disturbed_pass_is_measured_once_more_and_the_disturbance_decides(
    monkeypatch: pytest.MonkeyPatch, stolen_s: tuple[float, float], kept: float
) -> None:
    told = iter(stolen_s)
    monkeypatch.setattr("bench.__main__.run", lambda *_: {"measured": {}, "stolen_s": next(told)})
    (one,) = passes(False, memory_s=10.0)
    done = measure([one], Programs(None, None), Place((), 0), most_s=100.0)
    assert done[one.name]["stolen_s"] == kept
    assert done[one.name].get("times_measured") == (2 if stolen_s[0] else None)
