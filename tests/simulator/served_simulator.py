"""A simulator in its own process, spoken to over a real socket."""

import contextlib
import dataclasses
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WAIT_S = 10.0
FAST = ("--base-s", "0.002", "--sequence-s", "0", "--context-token-s", "0", "--prefill-token-s", "0")


@dataclasses.dataclass
class Answer:
    """One HTTP answer, read to its end; `broken` when the body ended before it was complete."""

    status: int
    headers: dict[str, str]
    body: bytes
    broken: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> list[str]:
        """The data of the events."""
        return [event.removeprefix("data: ") for event in self.body.decode().split("\n\n") if event]

    @property
    def chunks(self) -> list[Any]:
        return [json.loads(data) for data in self.data if data != "[DONE]"]

    @property
    def texts(self) -> list[str]:
        """Content of the chunks that have any."""
        deltas = [choice["delta"] for chunk in self.chunks for choice in chunk.get("choices", [])]
        return [delta["content"] for delta in deltas if delta.get("content")]

    @property
    def finish_reasons(self) -> list[str]:
        choices = [choice for chunk in self.chunks for choice in chunk.get("choices", [])]
        return [choice["finish_reason"] for choice in choices if choice["finish_reason"] is not None]


@dataclasses.dataclass
class Running:
    """A started simulator."""

    port: int
    truth_path: Path
    process: subprocess.Popen[str]

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> Answer:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)) as connection:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            names = {name.lower(): value for name, value in response.getheaders()}
            try:
                return Answer(response.status, names, response.read())
            except http.client.IncompleteRead as error:
                return Answer(response.status, names, error.partial, broken=True)

    def chat(self, text: str = "Say something.", headers: dict[str, str] | None = None, **fields: Any) -> Answer:
        body = {"messages": [{"role": "user", "content": text}], **fields}
        return self.request("POST", "/v1/chat/completions", json.dumps(body).encode(), headers)

    def stream(self, text: str = "Say something.", headers: dict[str, str] | None = None, **fields: Any) -> Answer:
        fields.setdefault("stream_options", {"include_usage": True})
        return self.chat(text, headers, stream=True, **fields)

    def send_only(self, request_id: str, **fields: Any) -> socket.socket:
        """The connection of a streamed request that was sent and of whose answer nothing has been read yet."""
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "stream": True, **fields}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: {request_id}\r\n"
        sock = socket.create_connection(("127.0.0.1", self.port), WAIT_S)
        sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return sock

    def metric(self, name: str) -> float:
        """The sum of the samples whose line begins with `name`."""
        lines = self.request("GET", "/metrics").body.decode().splitlines()
        values = [float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)]
        assert values, f"no {name} in /metrics"
        return sum(values)

    def truth(self, request_id: str) -> dict[str, Any]:
        """The truth line of one request; it is written just after the answer's last byte, so it may be waited for."""
        return wait_until(lambda: next((row for row in self.rows() if row["request_id"] == request_id), None))

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.truth_path.read_text().splitlines() if line.endswith("}")]


def wait_until(look: Callable[[], Any], wait_s: float = WAIT_S) -> Any:
    """What `look` returns once it is true."""
    deadline = time.monotonic() + wait_s
    while not (found := look()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return found


@contextlib.contextmanager
def started(folder: Path, *flags: str) -> Iterator[Running]:
    truth_path = folder / "truth.jsonl"
    command = [sys.executable, "-m", "simulator", "--port", "0", "--truth-log", str(truth_path), *flags]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("simulator listening on http://127.0.0.1:"), line
            yield Running(int(line.rpartition(":")[2].removesuffix("/v1\n")), truth_path, process)
        finally:
            process.terminate()
            try:
                process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
