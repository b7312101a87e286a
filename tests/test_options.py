"""Options of a run: what they resolve to. Wrong ones are in test_stepload.py, by the command that people type."""

import argparse
from pathlib import Path

import pytest

from tokenswarm.duration import parse_duration_s
from tokenswarm.options import add_arguments, resolve
from tokenswarm.running import shown_options
from tokenswarm.usage_error import UsageError


def given(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(words)


def test_defaults_are_those_of_the_main_job() -> None:
    options = resolve(given())
    assert (options.steps, options.step_time_s, options.warmup_s) == ((1, 5, 20, 50), 600.0, 30.0)
    assert (options.model, options.run_name, options.tokenizer) == (None, None, None)
    assert options.results == Path("results")


@pytest.mark.parametrize(
    ("step_time", "warmup_s"), [("10m", 30.0), ("4m", 30.0), ("40s", 5.0), ("8s", 1.0), ("100ms", 0.0125)]
)
def test_a_short_step_has_a_short_warm_up_unless_another_is_asked_for(step_time: str, warmup_s: float) -> None:
    assert resolve(given(f"--step-time={step_time}")).warmup_s == warmup_s
    assert resolve(given(f"--step-time={step_time}", "--warmup=0s")).warmup_s == 0


def test_texts_become_numbers() -> None:
    options = resolve(
        given("--steps= 2, 3", "--seed=-7", "--max-tokens=5", "--chinese-share=0", "--condition=gpu = H100")
    )
    assert (options.steps, options.seed, options.max_tokens, options.chinese_share) == ((2, 3), -7, 5, 0.0)
    assert options.conditions == {"gpu": "H100"}


def test_numbers_of_a_form_are_taken_too() -> None:
    """The web UI's form and another locustfile may hand over numbers."""
    options = given()
    options.max_tokens, options.seed, options.chinese_share = 5, 3, 0.5
    assert (resolve(options).max_tokens, resolve(options).seed, resolve(options).chinese_share) == (5, 3, 0.5)


def test_run_json_shows_them_as_resolved_and_without_headers() -> None:
    options = given("--header=Authorization: Basic xyz", "--max-tokens=5")
    shown = shown_options(options, resolve(options))
    assert shown["max_tokens"] == 5
    assert shown["seed"] == 1
    assert "xyz" not in str(shown)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20s", 20), ("10m", 600), ("1h30m", 5400), ("500ms", 0.5), ("7", 7), ("1.5", 1.5), (" 2 M ", 120), ("1d", 86400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "-5s", "5 parrots", "s", "1e3", "٣s", "10m-5s", "inf", "nan"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="no duration"):
        parse_duration_s(text)
