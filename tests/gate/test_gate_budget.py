"""What can be written as a budget, what it means, and what is said where it cannot."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.budget import DEFAULT, QUALITY_DEFAULT, Form, log_limit, parse, parse_one
from analysis.gate_errors import GateUsage
from tokenswarm.metrics import METRICS, Better, Kind


@pytest.mark.parametrize(
    ("text", "form", "size", "floor"),
    [
        ("ttft_p95:+10%", Form.PERCENT, 0.10, 0.003),
        ("ttft_p95:+10%|5ms", Form.PERCENT, 0.10, 0.005),
        ("ttft_p95:+10%|0ms", Form.PERCENT, 0.10, 0.0),
        ("ttft_p95:10%", Form.PERCENT, 0.10, 0.003),  # the bad side is the metric's own
        ("output_tokens_per_s:5%", Form.PERCENT, 0.05, 0.0),
        ("output_tokens_per_s:\N{MINUS SIGN}5%", Form.PERCENT, 0.05, 0.0),  # as typesetting writes it
        ("error_ratio:1pp", Form.POINTS, 0.01, 0.0),
        ("ttft_p95:20ms", Form.AMOUNT, 0.02, 0.0),
        ("ttft_p95:0%", Form.PERCENT, 0.0, 0.003),
        ("tpot_p50:+5%", Form.PERCENT, 0.05, 0.0002),
        ("e2e_p99:+1.5s", Form.AMOUNT, 1.5, 0.0),
        ("ttft_p50: + 20 ms", Form.AMOUNT, 0.02, 0.0),
        ("output_tokens_per_s:-5%", Form.PERCENT, 0.05, 0.0),
        ("output_tokens_per_s:-50", Form.AMOUNT, 50.0, 0.0),
        ("user_tokens_per_s_p05:-5%|2", Form.PERCENT, 0.05, 2.0),
        ("error_ratio:+1pp", Form.POINTS, 0.01, 0.0),
        ("slo_attainment:-2pp", Form.POINTS, 0.02, 0.0),
        ("quality_empty:+5pp", Form.POINTS, 0.05, 0.0),
        ("quality_length_ratio:-30%", Form.PERCENT, 0.30, 0.0),
    ],
)
def test_budgets(text: str, form: Form, size: float, floor: float) -> None:
    found = parse_one(text)
    assert (found.form, found.size, found.floor) == (form, pytest.approx(size), pytest.approx(floor))
    assert parse_one(str(found)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no figure"),
        ("ttft_p95", "must look like"),
        ("ttft_p95:", "must look like"),
        ("ttft_p95:ten%", "write a sign"),
        ("ttft_p95:+2,5%", "a unit is missing"),
        ("ttft_p95:+10%;tpot_p50:+5%", "is no unit of TTFT"),
        ("ttft_p95:+" + "9" * 400 + "%", "is no change"),
        ("ttft_p95:-10%", "worse when it rises"),
        ("output_tokens_per_s:+5%", "worse when it falls"),
        ("output_tokens_per_s:-100%", "leaves nothing"),
        ("ttft:+10%", "ttft_p50, ttft_p95"),
        ("ttft_mean:+10%", "few long requests"),
        ("ttft_p96:+10%", "there is no figure 'ttft_p96'"),
        ("tpto_p50:+10%", "there is no figure 'tpto_p50'"),
        ("observed_concurrency:+10%", "no good and bad side"),
        ("error_ratio:+10%", "percentage points"),
        ("error_ratio:+1", "a unit is missing"),
        ("ttft_p95:+10", "a unit is missing"),
        ("ttft_p95:+10pp", "no unit of TTFT"),
        ("ttft_p95:+10%|5", "is no floor"),
        ("ttft_p95:+10ms|5ms", "beside a percentage only"),
        ("ttft_p95:+10%,ttft_p95:+20%", "two budgets"),
        ("ttft_p95:+nan%", "is no change"),
        ("ttft_p95:+-5%", "is no change"),
    ],
)
def test_mistakes_are_said(text: str, words: str) -> None:
    with pytest.raises(GateUsage, match="BUDGET") as caught:
        parse(text)
    assert words in str(caught.value)


def test_the_defaults_can_be_parsed_and_every_direction_is_the_metrics_own() -> None:
    for budget in [*parse(DEFAULT), *parse(QUALITY_DEFAULT)]:
        assert budget.sign == (1 if budget.metric.better is Better.LOWER else -1)
    assert not any(one.is_quality for one in parse(DEFAULT))
    assert all(one.is_quality for one in parse(QUALITY_DEFAULT))


def test_every_metric_with_a_direction_can_be_gated() -> None:
    for metric in METRICS.values():
        name = metric.name if metric.kind is Kind.STEP else f"{metric.name}_p50"
        sign = "+" if metric.better is Better.LOWER else "-"
        text = f"{name}:{sign}1{'pp' if metric.unit == 'ratio' else '%'}"
        if metric.better is None:
            with pytest.raises(GateUsage):
                parse_one(text)
        else:
            assert parse_one(text).metric is metric


def test_a_floor_holds_where_the_percentage_is_nothing() -> None:
    budget = parse_one("ttft_p95:+10%|5ms")
    assert math.expm1(log_limit(budget, 0.002)) == pytest.approx(2.5)  # 2 ms may become 7 ms
    assert math.expm1(log_limit(budget, 1.0)) == pytest.approx(0.10)


def test_a_loss_is_measured_by_what_is_left() -> None:
    assert math.exp(-log_limit(parse_one("output_tokens_per_s:-20%"), 100)) == pytest.approx(0.8)
    assert log_limit(parse_one("output_tokens_per_s:-200"), 100) == math.inf


@given(st.text(max_size=40))
def test_no_text_makes_it_fail_otherwise_than_in_words(text: str) -> None:
    with contextlib.suppress(GateUsage):
        assert parse(text)
