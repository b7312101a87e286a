"""What the master found out and decided before the load, as plain data: it travels to the workers inside Locust's options."""

import argparse
import dataclasses
import platform
import socket
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from tokenswarm.calibration import ESTIMATE, Calibration, TokenizerError, calibration_requests, fit, from_tokenizer
from tokenswarm.client import ChatClient, ChatSettings
from tokenswarm.client_options import settings_from
from tokenswarm.digest import Reading
from tokenswarm.open_files import check_open_files
from tokenswarm.options import RunOptions, resolve
from tokenswarm.preflight import Findings, PreflightError, preflight
from tokenswarm.quality import QualityAnswer
from tokenswarm.quality_phase import ask_all
from tokenswarm.record import Outcome
from tokenswarm.target import parse_targets
from tokenswarm.text.prose import Language
from tokenswarm.usage_error import UsageError
from tokenswarm.workload import fewest_tokens

VERSIONED = ("tokenswarm", "locust", "openai", "gevent", "httptools", "msgspec", "transformers")
CALIBRATION_TOKENS = 4  # of one alone, a server that holds back half a character shows nothing
ATTRIBUTE = "tokenswarm_plan"  # of Locust's parsed options


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run, decided. `as_dict` and `from_dict` are inverse; neither holds a secret."""

    run_id: str
    run_path: str  # on the master's machine
    started_at: float  # epoch s, as in run.json: tells this run from another one of its name
    model: str
    max_tokens_field: str
    include_usage: bool
    has_key: bool  # the master asks with an API key
    calibration: Calibration
    origin: str = ""  # of the master's process: who has the same was forked from it

    def as_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "calibration": self.calibration.to_dict()}

    @staticmethod
    def from_dict(plain: dict[str, Any]) -> "Plan":
        """Raises UsageError where it is the plan of another TokenSwarm."""
        known = {field.name for field in dataclasses.fields(Plan)}
        if plain.keys() != known:
            raise UsageError(
                "the master runs another version of TokenSwarm than this worker. Install the same one on all machines."
            )
        return Plan(**{**plain, "calibration": Calibration.from_dict(plain["calibration"])})

    def settings(self, options: argparse.Namespace, host: str) -> ChatSettings:
        """How this process asks: the options' settings with what the preflight found. Raises UsageError."""
        settings = settings_from(options, host, self.model)
        if self.has_key and settings.api_key is None:
            raise UsageError(
                "OPENAI_API_KEY is set for the master and not for this worker. Set it here too: it never travels."
            )
        return dataclasses.replace(
            settings,
            max_tokens_field=self.max_tokens_field,
            include_usage=self.include_usage,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What the preflight brought, before there is a run folder."""

    options: RunOptions
    findings: Findings
    calibration: Calibration
    readings: tuple[Reading, ...]  # the requests that it took, to be recorded
    quality: tuple[QualityAnswer, ...] = ()


def prepare(given: argparse.Namespace, host: str | None) -> Prepared:
    """Check the options, probe the target, learn what a token of prompt costs. Writes nothing. Raises UsageError."""
    options = resolve(given)
    if not host:
        raise UsageError("There is no target: give --host http://host:8000/v1 (make: TARGET=…)")
    targets = parse_targets(host)
    processes = max(1, getattr(given, "processes", None) or getattr(given, "expect_workers", 1) or 1)
    check_open_files(max(options.steps), processes=processes, targets=len(targets))
    readings: list[Reading] = []
    findings = preflight(settings_from(given, host, options.model), on_record=readings.append)
    if options.tokenizer:
        try:
            calibration = from_tokenizer(options.tokenizer)
        except TokenizerError as error:
            raise UsageError(str(error)) from None
    elif findings.reports_usage:
        calibration = _calibrate(findings.settings, readings)
    else:
        calibration = ESTIMATE
    fewest = fewest_tokens(calibration, Language.ENGLISH)
    if options.prompt_tokens < fewest:
        raise UsageError(
            f"PROMPT_TOKENS={options.prompt_tokens} is too short: the chat template, words that tell requests apart and an "
            f"instruction take {fewest} tokens of this model. Ask for {fewest} or more."
        )
    notes = list(findings.notes)
    if options.chinese_share and options.prompt_tokens < fewest_tokens(calibration, Language.CHINESE):
        notes.append(f"prompts of {options.prompt_tokens} tokens are too short for Chinese ones: all are English")
        options = dataclasses.replace(options, chinese_share=0.0)
    findings = dataclasses.replace(findings, notes=tuple(notes))
    quality = ask_all(findings.settings, options.quality, readings.append) if options.quality else []
    return Prepared(
        options=options,
        findings=findings,
        calibration=calibration,
        readings=tuple(readings),
        quality=tuple(quality),
    )


def _calibrate(settings: ChatSettings, readings: list[Reading]) -> Calibration:
    client = ChatClient(settings, worker="preflight", on_record=readings.append, id_prefix="preflight-calibration")
    samples, failures = [], []
    try:
        for messages in calibration_requests():
            reading = client.chat(
                messages, user="preflight", task="preflight", max_tokens=CALIBRATION_TOKENS, await_record=True
            )
            record = reading.record
            assert record is not None
            if (
                record.outcome is Outcome.FAILED
            ):  # of one or two the line can do without; failures are the load's to measure
                failures.append(record)
            samples.append((messages, record.prompt_tokens))
    finally:
        client.close()
    if len(failures) == len(samples):
        raise PreflightError(
            f"Short prompts that measure what a token costs failed, all {len(samples)}: {failures[0].error_class} "
            f"({failures[0].detail or 'no words'}). The load would fail the same way."
        )
    return fit(samples)


def versions() -> dict[str, str]:
    """Name → version of what measures."""
    found = dict(_installed())
    return {"python": platform.python_version(), "os": platform.platform(terse=True), **found}


def _installed() -> Iterator[tuple[str, str]]:
    from tokenswarm import __version__

    yield "tokenswarm", __version__
    for name in VERSIONED[1:]:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue


def command_line() -> list[str]:
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def host_name() -> str:
    return socket.gethostname()
