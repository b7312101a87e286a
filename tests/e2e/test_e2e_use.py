"""The command as people use it wrongly, with a key, on a full disk, and Locust by hand."""

import contextlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.driving import LOCUST, REPO, analysed, outcomes, recorded, rows, run_json, running, stepload
from tests.servers import Server, simulator_server
from tokenswarm.record import Outcome
from tokenswarm.run_info import RunState

WRONG_USE, NOT_RECORDED = 2, 4


class Pages(http.server.BaseHTTPRequestHandler):
    """Servers that cannot be measured, by the first part of the path."""

    def answer(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path.startswith("/page"):
            self.answer(b"<html><body>Welcome to nginx!</body></html>", "text/html")
        else:
            names = ["big", "small"] if self.path.startswith("/several") else ["one"]
            self.answer(json.dumps({"data": [{"id": name} for name in names]}).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "Hello."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.answer(json.dumps({"object": "chat.completion", "choices": [choice]}).encode())

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def pages() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_targets_that_cannot_be_measured(tmp_path: Path, simulator: Server) -> None:
    """Each one clear sentence on stderr, exit code 2, no folder, no process left over."""
    with simulator_server("--api-key", "right") as locked, pages() as address:
        cases: dict[str, tuple[dict[str, str], str]] = {
            "refused": ({"target": "http://127.0.0.1:9/v1"}, "cannot be reached"),
            "html": ({"target": f"{address}/page"}, "no OpenAI-compatible server"),
            "several": ({"target": f"{address}/several/v1"}, "MODEL="),
            "unstreamed": ({"target": f"{address}/one/v1", "workers": "2"}, "without streaming"),
            "key": ({"target": locked.base_url}, "OPENAI_API_KEY"),
            "model": ({"target": simulator.base_url, "model": "nosuch"}, "does not serve the model 'nosuch'"),
            "short": ({"target": simulator.base_url, "prompt_tokens": "3"}, "PROMPT_TOKENS=3"),
            "tokenizer": ({"target": simulator.base_url, "tokenizer": "/nosuch/tokenizer"}, "/nosuch/tokenizer"),
        }
        with contextlib.ExitStack() as stack:
            runs = {
                name: stack.enter_context(running(stepload(tmp_path / "results", name, **options), tmp_path / name))
                for name, (options, _) in cases.items()
            }
            for name, run in runs.items():
                assert run.code() == WRONG_USE, (name, run.complained)
                assert cases[name][1] in run.complained
                assert "Traceback" not in run.complained
                listing = name in ("several", "model")  # a model a line follows the sentence
                assert listing or len(run.complained.strip().splitlines()) == 1, run.complained
                assert run.left_over() == [], name
    assert not (tmp_path / "results").exists()


def test_unknown_flags_are_refused_with_a_sentence(tmp_path: Path) -> None:
    """Locust would know them, or not: the server that was started for the load is stopped."""
    command = stepload(tmp_path / "results", "r", target="sim", nosuch_flag="1")
    with running(command, tmp_path / "said") as run:
        assert run.code() == WRONG_USE
        assert run.complained == "Unrecognized arguments: --nosuch-flag=1. --help shows all options.\n"
        assert run.left_over() == []
    assert not (tmp_path / "results").exists()


def test_importing_the_locustfiles_has_no_effect() -> None:
    """But for the one visible call: no listener, no hub, no thread, no output."""
    code = """
import locust, threading
def listeners():
    return {name: len(hook._handlers) for name, hook in vars(locust.events).items() if hasattr(hook, "_handlers")}
before = listeners()
import tokenswarm.wiring, tokenswarm.users, tokenswarm.steps
assert listeners() == before
import locustfiles.chat, scenarios.stepload
assert max(listeners().values()) == 1, "registered once by two files"
assert threading.active_count() == 1
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_full_disk(tmp_path: Path, simulator: Server) -> None:
    """Rows up to then are whole, one sentence says what happened, and the load ends."""
    folder = tmp_path / "r"
    command = stepload(tmp_path, "r", target=simulator.base_url, steps="4", step_time="60s", max_tokens="8")
    script = "import resource,os,sys; resource.setrlimit(resource.RLIMIT_FSIZE,(6000,6000)); os.execv(sys.argv[1],sys.argv[1:])"
    with running([sys.executable, "-c", script, *command], tmp_path / "said") as run:
        assert run.code() == NOT_RECORDED, run.complained
        assert run.complained.count("a row could not be written") == 1
        assert "Traceback" not in run.complained
        assert run.left_over() == []
    assert run_json(folder)["state"] == RunState.FAILED
    assert len(rows(folder)) > 10


def test_the_key_is_nowhere(tmp_path: Path) -> None:
    """Neither in a file, nor in what is said, nor on a command line while the run lasts; a server that echoes it included."""
    key, folder = "sk-marker-5f2a91", tmp_path / "r"
    with simulator_server("--fault", "status:code=401,every=9,share=0.999") as server:
        command = stepload(
            tmp_path, "r", target=server.base_url, steps="2", step_time="3s", workers="2", save_outputs=""
        )
        command = [part for part in command if part != "--save-outputs="] + ["--save-outputs"]
        with running(command, tmp_path / "said", OPENAI_API_KEY=key) as run:
            run.wait_until(recorded(folder), "rows")
            lines = [" ".join(process.cmdline()) for process in [psutil.Process(run.process.pid), *run.family()]]
            assert len(lines) >= 4
            assert not [line for line in lines if key in line]
            assert run.code() == 0, run.complained
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) > 10
    assert not [path for path in kept if key.encode() in path.read_bytes()]


def test_locust_without_a_scenario_records_its_step(tmp_path: Path, simulator: Server) -> None:
    command = [*LOCUST, "-f", "locustfiles/chat.py", "-u", "3", "-r", "3", "-t", "5s", f"--host={simulator.base_url}"]
    command += [f"--results={tmp_path}", "--run-name=r", "--prompt-tokens=64", "--max-tokens=12"]
    folder = tmp_path / "r"
    with running(command, tmp_path / "said") as run:
        assert run.code() == 0, run.complained
        assert run.complained == ""
    info = run_json(folder)
    assert info["state"] == RunState.COMPLETE
    assert info["scenario"]["name"] == "by hand"
    assert info["scenario"]["steps"] == [3]
    assert 1 < info["scenario"]["step_time_s"] <= 6
    assert outcomes(folder)[Outcome.OK] > 3
    assert (folder / "steps.csv").read_text().count("\n") == 2
    analysed(folder)


def test_ssl_before_locust_is_refused(tmp_path: Path) -> None:
    """A wrapper that imports a client library and then runs Locust: its TLS would recurse without end."""
    code = "import openai; from locust.main import main; main()"
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        code,
        "-f",
        "locustfiles/chat.py",
        "--headless",
        "--skip-log-setup",
    ]
    done = subprocess.run(
        [*command, "--host=http://127.0.0.1:9/v1", f"--results={tmp_path / 'results'}"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(REPO)},
    )
    assert done.returncode == WRONG_USE, done.stderr
    assert "Import locust first" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
