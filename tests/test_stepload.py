"""The command's own checks: wrong use is told in one sentence before anything is started or made."""

import socket
from pathlib import Path

import pytest

from tokenswarm import stepload, web_start
from tokenswarm.options import option_names
from tokenswarm.stepload import WRONG_USE, main


@pytest.fixture(autouse=True)
def nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr(stepload, "start_server", started)
    monkeypatch.setattr(stepload.subprocess, "Popen", started)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--steps=0"], "STEPS: '0'"),
        (["--steps=5,abc"], "STEPS: 'abc' in '5,abc'"),
        (["--steps=5,"], "STEPS: ''"),
        (["--steps=٣"], "STEPS: '٣'"),
        (["--steps=5,-1"], "STEPS: '-1'"),
        (["--step-time=-5s"], "STEP_TIME: '-5s' is no duration"),
        (["--step-time=0"], "STEP_TIME"),
        (["--step-time=fast"], "STEP_TIME: 'fast'"),
        (["--step-time=10s", "--warmup=10s"], "WARMUP (10s) must be shorter than STEP_TIME (10s)"),
        (["--warmup=-1"], "WARMUP: '-1'"),
        (["--prompt-tokens=0"], "PROMPT_TOKENS must be 1 or more"),
        (["--max-tokens=abc"], "MAX_TOKENS: 'abc' is no whole number"),
        (["--max-tokens=1.5"], "MAX_TOKENS: '1.5' is no whole number"),
        (["--seed=x"], "SEED: 'x' is no whole number"),
        (["--workers=abc"], "WORKERS: 'abc'"),
        (["--workers=0"], "WORKERS: '0'"),
        (["--chinese-share=2"], "--chinese-share"),
        (["--chinese-share=nan"], "--chinese-share"),
        (["--condition=gpu"], "NAME=VALUE"),
        (["--connect-timeout=abc"], "--connect-timeout"),
        (["--run-name=a/b"], "a/b"),
        (["--run-name=.."], ".."),
        (["--steps"], "--steps"),
    ],
)
def test_wrong_use_is_one_sentence(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    assert main([f"--results={results}", "--target=sim", *options]) == WRONG_USE
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert not results.exists()


def test_a_run_that_exists_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r").mkdir()
    assert main([f"--results={tmp_path}", "--run-name=r"]) == WRONG_USE
    assert "is there already" in capsys.readouterr().err
    assert list((tmp_path / "r").iterdir()) == []


def test_results_that_are_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "results").write_text("")
    assert main([f"--results={tmp_path / 'results'}"]) == WRONG_USE
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [("STEPS", "0", "STEPS: '0'"), ("MAX_TOKENS", "abc", "MAX_TOKENS: 'abc'"), ("WORKERS", "x", "WORKERS: 'x'")],
)
def test_variables_of_make_are_checked_alike(
    variable: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"TOKENSWARM_{variable}", value)
    assert main([]) == WRONG_USE
    assert words in capsys.readouterr().err


def test_a_variable_goes_before_the_defaults_of_the_local_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENSWARM_STEP_TIME", "7s")
    parser = stepload.arguments()
    given = stepload.with_local_defaults(parser, ["--max-tokens=9"])
    assert (given.step_time, given.max_tokens, given.prompt_tokens) == ("7s", "9", stepload.LOCAL["prompt_tokens"])


def test_locust_gets_the_options_and_what_it_alone_knows() -> None:
    given, extra = stepload.arguments().parse_known_args(
        ["--steps=1,2", "--workers=2", "--save-outputs", "--loglevel=X"]
    )
    command = stepload.locust_command(given, "http://h/v1", "name", extra)
    assert command[command.index("--processes") :][:2] == ["--processes", "2"]
    assert {"--steps=1,2", "--save-outputs", "--loglevel=X"} <= set(command)
    assert not [part for part in command if part.startswith("--run-name=")]


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    missing = [name for name in option_names() if f"--{name.replace('_', '-')}" not in said]
    assert not missing
    assert "--workers" in said


def test_the_master_of_several_processes_listens_on_the_loopback_only_at_a_free_port() -> None:
    given = stepload.arguments().parse_args(["--workers", "2"])

    def port() -> int:
        command = stepload.locust_command(given, "http://h/v1", "r", ())
        assert command[command.index("--master-bind-host") + 1] == "127.0.0.1"
        assert command[command.index("--master-bind-port") + 1] == command[command.index("--master-port") + 1]
        return int(command[command.index("--master-port") + 1])

    with socket.create_server(("127.0.0.1", port())) as taken:  # it is free: this can listen there
        assert port() != taken.getsockname()[1]


@pytest.mark.parametrize("target", ["ftp://x", "http://a:1/v1,", "http://a:b"])
def test_the_page_is_not_opened_for_a_target_that_is_none(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert web_start.main([f"--target={target}"]) == WRONG_USE
    assert capsys.readouterr().err.count("\n") == 1
