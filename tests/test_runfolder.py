"""The run folder: its name is its own, run.json is whole or old, and no secret gets into a file."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tokenswarm.metrics import DEFINITIONS_VERSION
from tokenswarm.record import SCHEMA, StepRecord, columns
from tokenswarm.redaction import REMOVED, is_secret, redact, redact_text
from tokenswarm.rowfile import RecordingError
from tokenswarm.run_info import RunInfo, RunState, run_info
from tokenswarm.runfolder import RunExists, RunFolder, RunFolderError, safe_name

ROOT = Path(__file__).parent.parent
NOW = 1795986300.0  # 2026-11-29 21:05 UTC

INFO = RunInfo(
    run_id="a",
    started_at=NOW,
    state=RunState.RUNNING,
    scenario="stepload",
    steps=[1, 5],
    step_time_s=20.0,
    warmup_s=5.0,
    slos={"ttft": 0.5},
    target="http://me:word@host:8000/v1?api_key=abc",
    model="m",
    conditions={"gpu": None, "arguments": "--max-model-len 4096 --api-key abcd"},
    options={"max_tokens": 64, "api_key": "s3cret", "extra_body": '{"ignore_eos": true, "token": "t"}'},
    seed=7,
    versions={"python": "3.11", "locust": "2"},
    host="here",
    cores=2,
    clients={"w2": {"clock_offset_s": 0.0, "pid": 2}, "w1": {"clock_offset_s": 0.0, "pid": 1}},
)


def test_a_run_is_called_after_its_time_and_never_shares_a_folder(tmp_path: Path) -> None:
    results = tmp_path / "results"
    made = [RunFolder.create(results, None, NOW).run_id for _ in range(3)]
    assert made == ["2026-11-29T2105Z", "2026-11-29T2105Z-2", "2026-11-29T2105Z-3"]


def test_a_name_that_is_taken_is_refused_and_nothing_touched(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "night")
    folder.steps_csv.write_text("old\n")
    with pytest.raises(RunExists, match=r"night is there already\. Choose another RUN=, or remove it"):
        RunFolder.create(tmp_path, "night")
    assert [path.name for path in folder.path.iterdir()] == ["steps.csv"]
    assert folder.steps_csv.read_text() == "old\n"


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "a\\b", "", ".", "..", ".hidden", "a b", "-x", "名", "a\n", "x" * 101]
)
def test_odd_names_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunFolderError, match="cannot name a run"):
        RunFolder.create(tmp_path / "results", name)
    assert not (tmp_path / "results").exists()


def test_a_place_that_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(RunFolderError, match=r"cannot be made in .*results"):
        RunFolder.create(tmp_path / "results", "a")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_is_read_only_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(RunFolderError, match="Permission denied"):
        RunFolder.create(tmp_path, "a")


def test_workers_attach_only_to_what_is_there(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "a")
    assert RunFolder.attach(folder.path).requests_csv("w1") == tmp_path / "a" / "requests-w1.csv"
    with pytest.raises(RunFolderError, match="b is not there"):
        RunFolder.attach(tmp_path / "b")


def test_worker_names_stay_apart_and_inside_the_folder() -> None:
    assert safe_name("box_0a1b2c") == "box_0a1b2c"
    odd = ["a/b", "a b", "a-b", "../../etc", "", "名", "\ud800", "x" * 300, "x" * 301, "."]
    names = [safe_name(worker) for worker in odd]
    assert len(set(names)) == len(odd)
    assert not any("/" in name or name.startswith(".") or len(name) > 100 for name in names)


def test_run_json_has_the_documented_keys_in_their_order(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "a")
    folder.write_run(run_info(INFO))
    first = folder.run_json.read_bytes()
    folder.write_run(run_info(INFO))
    assert folder.run_json.read_bytes() == first
    found = folder.read_run()
    assert list(found) == [
        *("schema", "definitions_version", "run_id", "started_at", "ended_at", "state", "scenario", "slos", "target"),
        *("model", "conditions", "options", "seed", "versions", "host", "cores", "clients"),
    ]
    documented = (ROOT / "docs" / "architecture.md").read_text()
    assert all(f"`{key}`" in documented for key in found)
    assert (found["schema"], found["definitions_version"]) == (SCHEMA, DEFINITIONS_VERSION)
    assert found["scenario"] == {"name": "stepload", "steps": [1, 5], "step_time_s": 20.0, "warmup_s": 5.0}
    assert found["ended_at"] is None
    assert list(found["clients"]) == ["w1", "w2"]
    assert os.listdir(folder.path) == ["run.json"]


def test_run_json_holds_no_secret() -> None:
    text = json.dumps(run_info(INFO, secrets=["host:8000", "4"]))  # "4" is too short to guard anything
    for secret in ("word", "abc", "s3cret", '"t"', "host:"):
        assert secret not in text
    assert '"max_tokens": 64' in text
    assert "--max-model-len 4096" in text


def test_a_full_disk_keeps_the_old_run_json(tmp_path: Path) -> None:
    code = """
        import resource, signal, sys
        from pathlib import Path
        from tokenswarm.rowfile import RecordingError
        from tokenswarm.runfolder import RunFolder
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        folder = RunFolder.attach(Path(sys.argv[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            folder.write_run({"text": "x" * 1000})
        except RecordingError as error:
            print(error)
    """
    folder = RunFolder.create(tmp_path, "a")
    folder.write_run({"old": True})
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(folder.path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "run.json could not be written: File too large" in done.stdout
    assert folder.read_run() == {"old": True}
    assert os.listdir(folder.path) == ["run.json"]


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "a")
    with pytest.raises(RunFolderError, match="is no run's folder"):
        folder.read_run()
    folder.run_json.write_text("{")
    with pytest.raises(RunFolderError, match="is no run's folder"):
        folder.read_run()
    folder.run_json.write_text("[]")
    with pytest.raises(RunFolderError, match="is no JSON object"):
        folder.read_run()


def test_steps_are_written_as_they_end(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "a")
    assert not folder.steps_csv.exists()
    folder.append_step(StepRecord(step=1, target_users=5, started_at=NOW, settled_at=NOW + 0.5, ended_at=NOW + 20))
    folder.append_step(StepRecord(step=2, target_users=20, started_at=NOW + 20))
    folder.close()
    assert folder.steps_csv.read_text().splitlines() == [
        ",".join(columns(StepRecord)),
        "1,5,1795986300.000000,1795986300.500000,1795986320.000000",
        "2,20,1795986320.000000,,",
    ]
    with pytest.raises(RecordingError):
        folder.append_step(StepRecord(step=3, target_users=20, started_at=NOW))


def test_mending_cuts_torn_rows_only(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "a")
    folder.requests_csv("w1").write_text("a\n1\n2")
    folder.requests_csv("w2").write_text("a\n1\n")
    folder.outputs_jsonl("w1").write_text('{"request_id":')
    (folder.path / "notes.txt").write_text("mine")
    assert folder.mend() == {folder.requests_csv("w1"): 1, folder.outputs_jsonl("w1"): 14}
    assert folder.requests_csv("w1").read_text() == "a\n1\n"
    assert (folder.path / "notes.txt").read_text() == "mine"
    assert folder.mend() == {}


@pytest.mark.parametrize(
    "name",
    [
        *("api_key", "apiKey", "OPENAI_API_KEY", "tls_key", "hf_token", "token", "accessToken", "client_secret"),
        *("password", "passwd", "Authorization", "headers", "x-header", "cookie", "web_auth", "access_tokens"),
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret(name, "x")
    assert redact({name: "x"}) == {name: REMOVED}
    assert redact({name: None}) == {name: None}


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "prompt_tokens",
        "max_tokens_field",
        "tokenizer",
        "author",
        "run",
        "tokens_per_chunk",
        "secs",
        "steps",
    ],
)
def test_names_that_stay(name: str) -> None:
    assert redact({name: "100-200"}) == {name: "100-200"}


def test_a_number_called_token_is_a_count() -> None:
    assert redact({"max_token": 5, "token": True, "n": [{"token": "x"}]}) == {
        "max_token": 5,
        "token": REMOVED,
        "n": [{"token": REMOVED}],
    }


def test_options_become_json(tmp_path: Path) -> None:
    given = {
        "path": tmp_path,
        "steps": (1, 5),
        "tags": {"b", "a"},
        "state": RunState.FAILED,
        "flag": True,
        "no": None,
        "f": float("inf"),
    }
    assert redact(given) == {
        "path": str(tmp_path),
        "steps": [1, 5],
        "tags": ["a", "b"],
        "state": "failed",
        "flag": True,
        "no": None,
        "f": "inf",
    }


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("http://u:p@h:1/v1?api_key=abc&model=x", "http://h:1/v1?api_key=[removed]&model=x"),
        ("https://u@x:p@h/", "https://h/"),
        ("http://h/a@b", "http://h/a@b"),
        (
            "--api-key foo --max-tokens 40 --hf-token=x -v",
            "--api-key [removed] --max-tokens 40 --hf-token=[removed] -v",
        ),
        ("serve x --key k", "serve x --key [removed]"),
        ("Authorization: Bearer abcdefgh", "Authorization: [removed]"),
        ("Basic dTpw", "[removed]"),
        ("--header 'X-Key: abc'", "--header 'X-Key: [removed]'"),
        ("X-Token: 12345", "X-Token: [removed]"),
        ("OPENAI_API_KEY=x make", "OPENAI_API_KEY=[removed] make"),
        ("sk-abcdefghijkl", "[removed]"),
        ('{"api_key": "a", "max_tokens": 3}', '{"api_key": "[removed]", "max_tokens": 3}'),
        ("[1, 5", "[1, 5"),
        ("the key question is: how long a token waits", "the key question is: how long a token waits"),
    ],
)
def test_secrets_in_text(text: str, kept: str) -> None:
    assert redact_text(text) == kept


def test_a_known_secret_goes_wherever_it_stands() -> None:
    assert redact({"note": ["see hunter2!"], "n": 1}, ["hunter2", ""]) == {"note": ["see [removed]!"], "n": 1}
