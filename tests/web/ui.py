"""Locust with its web UI in a process of its own, and what its pages say without a browser."""

import contextlib
import json
import socket
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.driving import SCENARIO, Run, running

SHORT = {"steps": "2,6", "step_time": "4s", "warmup": "1s", "prompt_tokens": "64", "max_tokens": "6"}


class Ui(NamedTuple):
    """`url` ends without a slash. `results`: where its runs are."""

    url: str
    run: Run
    results: Path

    def get(self, path: str, **headers: str) -> tuple[int, str]:
        return self._ask(urllib.request.Request(self.url + path, headers=headers))

    def post(self, path: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, str]:
        body = urllib.parse.urlencode(form or {}).encode()
        return self._ask(urllib.request.Request(self.url + path, body, headers))

    def _ask(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def now(self) -> dict[str, Any]:
        return json.loads(self.get("/tokenswarm/now")[1])

    def start(self, **fields: str) -> dict[str, Any]:
        """As the form does, with the staircase."""
        form = {"user_count": "1", "spawn_rate": "1", "shape_class": "StepLoad", "user_classes": "Chat"}
        text = self.post("/swarm", form | fields)[1]
        return json.loads(text) if text.startswith("{") else {"page": text}

    def ended(self) -> dict[str, Any]:
        self.run.wait_until(lambda: (now := self.now())["run"] and now["run"]["is_over"], "end of the run")
        return self.now()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


@contextlib.contextmanager
def locust_ui(folder: Path, target: str, *more: str, **options: str) -> Iterator[Ui]:
    port = free_port()
    given = {"host": target, "web_host": "127.0.0.1", "web_port": str(port), "results": str(folder), **SHORT, **options}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    command = [sys.executable, "-m", "locust", "-f", SCENARIO, "--class-picker", *flags, *more]
    with serving(command, folder, port) as ui:
        yield ui


@contextlib.contextmanager
def serving(command: list[str], folder: Path, port: int, **env: str) -> Iterator[Ui]:
    """`command` with its page at `port`, once it answers."""
    with running(command, folder / "said", **env) as run:
        ui = Ui(f"http://127.0.0.1:{port}", run, folder)

        def answers() -> bool:
            with contextlib.suppress(OSError):
                return ui.get("/worker-count")[0] == 200
            return False

        run.wait_until(answers, "web page")
        yield ui
