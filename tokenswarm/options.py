"""Options of a run, on Locust's command line and in its web UI's form, and what they resolve to."""

import argparse
import dataclasses
import re
from pathlib import Path
from typing import Any

from tokenswarm import slo
from tokenswarm.client_options import add_client_arguments
from tokenswarm.duration import parse_duration_s
from tokenswarm.quality import BUILT_IN, QualityPrompt, prompts_of
from tokenswarm.usage_error import UsageError

MOST_USERS = 100_000
WARMUP_S, WARMUP_SHARE = 30.0, 1 / 8  # unless it is said: so long, or so much of a shorter step


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """A run as it was asked for, checked."""

    model: str | None
    steps: tuple[int, ...]
    step_time_s: float
    warmup_s: float
    prompt_tokens: int
    max_tokens: int
    run_name: str | None
    results: Path
    tokenizer: str | None
    seed: int
    chinese_share: float
    save_outputs: bool
    conditions: dict[str, str]
    slos: dict[str, float]  # name → limit in base units
    quality: tuple[QualityPrompt, ...] = ()  # asked before the load; none: no quality phase


def add_run_arguments(parser: Any) -> None:
    """Everything that shapes the load and the run folder. Values are texts: `resolve` says what is wrong with them."""
    add = parser.add_argument
    add("--model", default="", help="model to measure; not needed where the server lists just one")
    add("--steps", default="1,5,20,50", help="users of each step of the staircase, separated by commas")
    add("--step-time", default="10m", help="how long each step is held, from the moment all its users are up")
    add(
        "--warmup",
        default="",
        metavar="TIME",
        help=f"beginning of each step's hold that is not counted ({WARMUP_S:g}s, or an eighth of a shorter step)",
    )
    add("--prompt-tokens", default="256", metavar="N", help="tokens of each prompt")
    add("--max-tokens", default="128", metavar="N", help="limit of each answer in tokens")
    add("--run-name", default="", metavar="RUN", help="name of the run's folder; the time of its start if empty")
    add("--results", default="results", metavar="DIR", help="where run folders are made")
    add("--tokenizer", default="", help="path or hub id of the model's tokenizer, to make prompts of exact length")
    add("--seed", default="1", help="prompts are made from it")
    add("--chinese-share", default="0.1", metavar="SHARE", help="share of prompts in Chinese, 0 to 1")
    add("--save-outputs", action="store_true", help="also keep the text that was received")
    add(
        "--condition",
        action="append",  # without a default, as --slo
        metavar="NAME=VALUE",
        help="what the server does not tell of itself, like gpu=H100; may be repeated",
    )
    slo.add_argument(parser)
    add(
        "--quality",
        default="",
        metavar="SET",
        help=f"ask a fixed set of prompts before the load: '{BUILT_IN}' for the one that comes along, or a JSONL file",
    )


def add_arguments(parser: Any) -> None:
    add_run_arguments(parser)
    add_client_arguments(parser)


def add_process_arguments(parser: Any) -> None:
    """What is no part of a run: only on Locust's command line, never in its form."""
    parser.add_argument(
        "--prometheus-port",
        default="",
        metavar="[ADDRESS:]PORT",
        help="export live figures for Prometheus there, headless too (address: 127.0.0.1)",
        include_in_web_ui=False,
    )


def parse_steps(text: str) -> tuple[int, ...]:
    """Users of each step. Raises UsageError."""
    steps = []
    for part in text.split(","):
        word = part.strip()
        if not re.fullmatch("[0-9]{1,9}", word) or not 1 <= int(word) <= MOST_USERS:
            where = "" if word == text else f" in '{text}'"
            raise UsageError(
                f"STEPS: '{word}'{where} is no number of users; give whole numbers of 1 or more, like 1,5,20,50"
            )
        steps.append(int(word))
    return tuple(steps)


def _duration(name: str, text: str) -> float:
    try:
        return parse_duration_s(str(text))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _whole(name: str, text: str, *, least: int | None = None) -> int:
    word = str(text).strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", word):
        raise UsageError(f"{name}: '{text}' is no whole number")
    if least is not None and int(word) < least:
        raise UsageError(f"{name} must be {least} or more, not {word}")
    return int(word)


def _share(name: str, text: str) -> float:
    try:
        value = float(str(text))
    except ValueError:
        raise UsageError(f"{name}: '{text}' is no number; give a share from 0 to 1") from None
    if not 0 <= value <= 1:
        raise UsageError(f"{name} must be between 0 and 1, not {text}")
    return value


def resolve(given: argparse.Namespace) -> RunOptions:
    """The checked options. Raises UsageError with one sentence for the first that cannot be used."""
    steps = parse_steps(given.steps)
    step_time_s = _duration("STEP_TIME", given.step_time)
    if step_time_s <= 0:
        raise UsageError(f"STEP_TIME: a step must last longer than 0 s, not '{given.step_time}'")
    warmup_s = _duration("WARMUP", given.warmup) if given.warmup else min(WARMUP_S, step_time_s * WARMUP_SHARE)
    if warmup_s >= step_time_s:
        raise UsageError(
            f"WARMUP ({given.warmup}) must be shorter than STEP_TIME ({given.step_time}): nothing would be counted"
        )
    return RunOptions(
        model=given.model or None,
        steps=steps,
        step_time_s=step_time_s,
        warmup_s=warmup_s,
        prompt_tokens=_whole("PROMPT_TOKENS", given.prompt_tokens, least=1),
        max_tokens=_whole("MAX_TOKENS", given.max_tokens, least=1),
        run_name=given.run_name or None,
        results=Path(given.results),
        tokenizer=given.tokenizer or None,
        seed=_whole("SEED", given.seed),
        chinese_share=_share("--chinese-share", given.chinese_share),
        save_outputs=given.save_outputs,
        conditions=_conditions(given.condition),
        slos=slo.parse_all(given.slo),
        quality=tuple(prompts_of(given.quality)) if given.quality else (),
    )


def _conditions(given: list[str] | str | None) -> dict[str, str]:
    """Of options that each hold one; Locust's web form hands over one text with commas between them."""
    texts = [given] if isinstance(given, str) else given or []
    parts = texts[0].split(",") if isinstance(given, str) else texts
    return dict(_condition(part) for part in parts if part.strip())


def _condition(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"--condition must look like NAME=VALUE (gpu=H100), not '{text}'")
    return name.strip(), value.strip()


def option_names() -> frozenset[str]:
    """Names of all options of ours, as attributes."""
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    return frozenset(action.dest for action in parser._actions)
