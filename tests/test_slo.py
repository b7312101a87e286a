"""Objectives as people write them, and what they are told when one cannot be used."""

import argparse

import pytest

from tokenswarm import slo
from tokenswarm.metrics import METRICS
from tokenswarm.options import add_arguments, resolve
from tokenswarm.usage_error import UsageError


@pytest.mark.parametrize(
    ("text", "name", "limit"),
    [
        ("ttft_p95=500ms", "ttft_p95", 0.5),
        ("ttft_p95=0.5", "ttft_p95", 0.5),
        ("tpot_p99 = 2.5s", "tpot_p99", 2.5),
        ("itl_mean=900us", "itl_mean", 0.0009),
        ("itl_mean=900µs", "itl_mean", 0.0009),
        ("E2E_P50=10S", "e2e_p50", 10.0),
        ("error_ratio=1%", "error_ratio", 0.01),
        ("error_ratio=7%", "error_ratio", 0.07),
        ("error_ratio=0", "error_ratio", 0.0),
        ("slo_attainment=0.95", "slo_attainment", 0.95),
        ("user_tokens_per_s_p05=20", "user_tokens_per_s_p05", 20.0),
        ("output_tokens_per_s=1000tokens/s", "output_tokens_per_s", 1000.0),
        ("itl_per_token_p95=50ms", "itl_per_token_p95", 0.05),
    ],
)
def test_a_limit_in_base_units(text: str, name: str, limit: float) -> None:
    assert slo.parse(text) == (name, limit)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ttft_p95", "must look like NAME=LIMIT"),
        ("=500ms", "must look like NAME=LIMIT"),
        ("ttft_p95=", "must look like NAME=LIMIT"),
        ("ttft=500ms", "there are ttft_mean, ttft_p50, ttft_p95, ttft_p99"),
        ("ttft_p90=500ms", "'ttft_p90' is not measured"),
        ("ttft_max=500ms", "'ttft_max' is not measured"),
        ("user_tokens_per_s_p95=20", "there are user_tokens_per_s_p50, user_tokens_per_s_p05"),
        ("error_ratio_p95=1%", "error_ratio is one figure a step"),
        ("latency_p95=1s", "names no metric that can be limited"),
        ("observed_concurrency=5", "names no metric that can be limited"),
        ("tokens_per_chunk_mean=1", "names no metric that can be limited"),
        ("ttft_p95=fast", "is no limit"),
        ("ttft_p95=-1s", "is no limit"),
        ("ttft_p95=nan", "is no limit"),
        ("ttft_p95=1.2.3s", "is no limit"),
        ("ttft_p95=5%", "'%' is no unit of TTFT"),
        ("ttft_p95=5min", "'min' is no unit of TTFT"),
        ("ttft_p95=0ms", "no answer takes 0ms"),
        ("error_ratio=5ms", "'ms' is no unit of Error ratio"),
        ("error_ratio=5", "more than all requests"),
        ("requests_per_s=5%", "'%' is no unit of Requests/s"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=r"^--slo") as error:
        slo.parse(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_every_name_is_of_a_metric_with_a_better_direction() -> None:
    assert {"ttft_p95", "error_ratio", "user_tokens_per_s_p05", "goodput_per_s"} <= set(slo.names())
    for name in slo.names():
        found = slo.limited(name)
        assert found.metric.better is not None
        assert name == "_".join(filter(None, (found.metric.name, found.statistic)))
        assert METRICS[found.metric.name] is found.metric


def given(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def test_the_option_may_be_repeated_or_hold_several() -> None:
    options = resolve(given("--slo", "ttft_p95=500ms,error_ratio=1%", "--slo=tpot_p95=50ms"))
    assert options.slos == {"ttft_p95": 0.5, "error_ratio": 0.01, "tpot_p95": 0.05}
    assert resolve(given()).slos == resolve(given("--slo", "")).slos == {}


def test_two_limits_of_one_name_contradict() -> None:
    assert slo.parse_all("ttft_p95=500ms, ttft_p95=0.5s") == {"ttft_p95": 0.5}
    with pytest.raises(UsageError, match="given twice"):
        slo.parse_all(["ttft_p95=500ms", "ttft_p95=1s"])
    with pytest.raises(UsageError, match="ttft_p90"):
        resolve(given("--slo", "ttft_p90=1s"))
