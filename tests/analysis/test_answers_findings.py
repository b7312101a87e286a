"""Findings in words, costs and what may be asked: nothing is said without evidence."""

import argparse
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_on_paper import failed, ok, step, write_run
from steps_on_paper import a_queue, a_step, table

from analysis import asked, cost, names
from analysis.cost import Prices, costs, waste
from analysis.distrust import of_law, of_run, of_steps
from analysis.finding import Finding, FindingKind, Severity
from analysis.findings import findings
from analysis.littles_law import check
from analysis.pipeline import Analysis, analyse
from tokenswarm.record import Caution, RequestRecord
from tokenswarm.usage_error import UsageError


def steady(users: int, begin_s: float, count: int, **more: Any) -> list[RequestRecord]:
    """`count` answers of each user in 10 s, back to back, of four tokens each."""
    each_ms = 10_000 / count
    times = [each_ms * share for share in (0.25, 0.5, 0.75, 1.0)]
    return [
        ok(f"{begin_s}-{user}-{i}", begin_s + i * each_ms / 1000, times, user=f"u{begin_s}-{user}", **more)
        for user in range(users)
        for i in range(count)
    ]


def a_run(folder: Path, loads: list[int], bad: bool = False, **more: Any) -> Analysis:
    steps = [step(i + 1, users, i * 10, i * 10 + 10) for i, users in enumerate(loads)]
    rows = [row for i, users in enumerate(loads) for row in steady(users, i * 10, 80, **more)]
    if bad:
        rows = [failed(row.request_id, row.sent_at - rows[0].sent_at, 100) for row in rows]
    return analyse(write_run(folder, rows, steps))


def first(found: list[Finding]) -> str:
    """Of the first finding; nothing but doubts may follow."""
    assert (found[0].kind, found[0].severity) == (FindingKind.DISTRUST, Severity.WARNING)
    assert {one.kind for one in found} <= {FindingKind.DISTRUST, FindingKind.VERDICT}
    return found[0].text


SLOS = {"ttft_p95": 0.5}


def test_one_load_says_so_and_nothing_else(tmp_path: Path) -> None:
    text = first(findings(a_run(tmp_path, [2]), SLOS, Prices(per_hour=1), count=5))
    assert text.startswith(
        "Only one load is evidence, 2 users: where this server bends and what it can carry is not shown."
    )
    assert text.endswith(" ttft_p95 ≤ 500 ms: met for sure, 31.2 ms (95 % interval 31.2 ms to 31.2 ms).")


def test_all_failed_says_so_and_nothing_else(tmp_path: Path) -> None:
    text = first(findings(a_run(tmp_path, [1, 2], bad=True), SLOS))
    assert text.startswith("None of the requests (240) was answered")


def test_nothing_but_invalid_steps(tmp_path: Path) -> None:
    analysis = a_run(tmp_path, [1, 2], lag_max_us=9_000_000, coalesced=3)
    assert set(analysis.summary.verdict) == {"invalid"}
    found = findings(analysis, SLOS)
    assert first(found) == "Every step is invalid: nothing is said of this server."
    assert found[1].kind is FindingKind.VERDICT
    assert found[1].text.startswith("Invalid at 1 and 2 users: ")
    assert "merged" in found[1].text


def test_no_step_at_all(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [ok("a", 1, [10])])
    (folder / "steps.csv").unlink()
    assert first(findings(analyse(folder), SLOS)).startswith("No step was recorded")


def test_two_loads_without_objectives(tmp_path: Path) -> None:
    found = findings(a_run(tmp_path, [1, 2]))
    assert [one.kind for one in found[:2]] == [FindingKind.CAPACITY, FindingKind.KNEE]
    assert "The highest output was 63.9 tokens/s, at 2 users, the largest step" in found[0].text
    assert "No bend up to 2 users" in found[1].text
    assert not [one for one in found if one.kind in (FindingKind.PHASE, FindingKind.REPLICAS, FindingKind.COST)]


def test_signs_in_the_answers_are_named_with_their_share(tmp_path: Path) -> None:
    warned = (Caution.BUFFERING_SUSPECTED, Caution.PROMPT_TRUNCATED, Caution.SHORT_OUTPUT)
    found = findings(a_run(tmp_path, [1, 2], warnings=warned, cached_tokens=2, output_tokens=8))
    texts = "\n".join(one.text for one in found if one.kind is FindingKind.DISTRUST)
    assert "100 % of the answers look buffered on their way" in texts
    assert "100 % of the answers are to prompts that the server cut" in texts
    assert "100 % of the answers ended before the length asked for" in texts
    assert "20 % of the prompt tokens came from a warm prefix cache" in texts
    assert "A chunk is not a token (tokens per chunk: 2 at 1 user and 2 at 2 users)" in texts


def test_verdicts_and_few_answers_are_named() -> None:
    few = {"requests_sent": 40, "requests_ok": 40}
    rows = [
        a_step(1, **few),
        a_step(5, verdict="suspect", reasons="late"),
        a_step(20, verdict="invalid", reasons="gone"),
    ]
    found = list(of_steps(table(rows)))
    assert [one.text for one in found] == [
        "Invalid at 20 users: gone.",
        "Suspect at 5 users: late.",
        "Few answers: 40 at 1 user; a p95 of requests needs 59, a p99 299.",
    ]
    assert list(of_steps(table([a_step(1), a_step(5)]))) == []


def test_a_law_that_fails_is_distrusted() -> None:
    short = a_step(20, requests_per_s=a_step(20)[names.REQUESTS_PER_S] * 0.7)
    found = list(of_law(check(table([a_step(5), short, a_step(50, error_ratio=0.2)]))))
    assert [(one.kind, one.severity) for one in found] == [
        (FindingKind.DISTRUST, Severity.WARNING),
        (FindingKind.LAW, Severity.INFO),
    ]
    assert "20 in flight were observed, requests/s × mean E2E gives 14.0 (-30%, tolerance 12.9 %)" in found[0].text
    assert "Not checked: 50 users (20% of the requests failed)." in found[1].text


def test_what_the_run_leaves_open() -> None:
    info = {"state": "interrupted", "conditions": {"gpu": None, "model": "m", "engine": None}}
    texts = [one.text for one in of_run(info, 1, ("ttft",))]
    assert texts[0].startswith("This run was interrupted.")
    assert texts[1].startswith("The objective ttft is not judged")
    assert "unknown: engine, gpu (" in texts[2]
    assert list(of_run({"state": "complete", "conditions": {"gpu": "H100"}}, 1, ())) == []


def test_costs_by_the_hour_on_paper() -> None:
    """Two GPUs at 3.60 an hour are 0.002 a second; 100 tokens/s in 2 requests/s."""
    rates = {names.OUTPUT_TOKENS_PER_S: 100.0, names.TOTAL_TOKENS_PER_S: 500.0, names.REQUESTS_PER_S: 2.0}
    summary = table([a_step(5, **rates), a_step(20, verdict="invalid", **rates)])
    wasted = pd.DataFrame(
        {
            names.STEP: [5, 20],
            cost.FAILED_TIME: [0.1, 0.1],
            cost.TRUNCATED_TIME: [0.25, 0.1],
            cost.FAILED_TOKENS: [0.0, 0.0],
            cost.TRUNCATED_TOKENS: [0.5, 0.0],
        }
    )
    found, invalid = costs(summary, Prices(per_hour=3.6, gpus=2, watts=400), wasted).to_dict("records")
    assert found[cost.COST_PER_MILLION] == pytest.approx(20.0)
    assert found[cost.COST_PER_REQUEST] == pytest.approx(0.001)
    assert found[cost.ENERGY_PER_TOKEN_J] == pytest.approx(8.0)
    assert found[cost.FAILED_PER_HOUR] == pytest.approx(0.72)
    assert found[cost.TRUNCATED_PER_HOUR] == pytest.approx(1.8)
    assert math.isnan(invalid[cost.COST_PER_MILLION])
    # By the token: 400 prompt tokens/s at 1 and 100 output tokens/s at 5 a million are 0.0009 a second.
    found = costs(summary, Prices(input_per_million=1, output_per_million=5), wasted).to_dict("records")[0]
    assert found[cost.COST_PER_MILLION] == pytest.approx(9.0)
    assert found[cost.COST_PER_REQUEST] == pytest.approx(0.00045)
    assert found[cost.TRUNCATED_PER_HOUR] == pytest.approx(0.0009 * 3600 * 0.5)
    assert math.isnan(found[cost.ENERGY_PER_TOKEN_J])


def test_what_failed_and_truncated_answers_take_on_paper(tmp_path: Path) -> None:
    """1 s failed after 1 token, 3 s cut at 4 tokens, 4 s whole with 5: of 8 s and 10 tokens."""
    rows = [
        failed("f", 0, 1000, [10]),
        ok("t", 1, [100, 200, 300, 3000], finish_reason="length"),
        ok("w", 2, [100, 200, 300, 400, 4000]),
    ]
    analysis = analyse(write_run(tmp_path, rows))
    (found,) = waste(analysis.requests, analysis.steps).to_dict("records")
    assert (found[cost.FAILED_TIME], found[cost.TRUNCATED_TIME]) == (pytest.approx(1 / 8), pytest.approx(3 / 8))
    assert (found[cost.FAILED_TOKENS], found[cost.TRUNCATED_TOKENS]) == (pytest.approx(0.1), pytest.approx(0.4))


def test_costs_scale_with_the_unit_of_time() -> None:
    fast, slow = (costs(a_queue([1, 5], 5, 0.05 * k, 0.02 * k), Prices(per_hour=1.0)) for k in (1, 4))
    assert (slow[cost.COST_PER_MILLION] / fast[cost.COST_PER_MILLION]).tolist() == pytest.approx([4, 4])


def parsed(*arguments: str) -> asked.Asked:
    parser = argparse.ArgumentParser()
    asked.add_arguments(parser)
    return asked.resolve(parser.parse_args(arguments))


def test_what_may_be_asked() -> None:
    assert parsed() == asked.Asked(None, None, None, 0.3)
    found = parsed(
        "--slo", "ttft_p95=500ms", "--users", "100", "--headroom", "20%", "--price-per-hour", "2.5", "--gpus", "8"
    )
    assert found == asked.Asked({"ttft_p95": 0.5}, Prices(per_hour=2.5, gpus=8), 100, 0.2)
    assert parsed("--price-input", "0", "--price-output", "3", "--watts", "700").prices == Prices(
        None, 1, 700.0, 0.0, 3.0
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--users", "0"], "--users: '0' is no number of users"),
        (["--users", "many"], "--users: 'many'"),
        (["--headroom", "100%"], "--headroom: '100%'"),
        (["--headroom", "some"], "--headroom: 'some'"),
        (["--price-per-hour", "-1"], "--price-per-hour: '-1' is no amount"),
        (["--price-per-hour", "nan"], "--price-per-hour: 'nan' is no amount"),
        (["--gpus", "0", "--watts", "1"], "--gpus: '0'"),
        (["--price-input", "1"], "go together"),
        (["--price-input", "1", "--price-output", "1", "--price-per-hour", "1"], "not paid twice"),
        (["--slo", "ttft=1s"], "not measured"),
    ],
)
def test_what_cannot_be_used_is_said(arguments: list[str], words: str) -> None:
    with pytest.raises(UsageError) as error:
        parsed(*(f"{name}={value}" for name, value in zip(arguments[::2], arguments[1::2], strict=True)))
    assert words in str(error.value)
