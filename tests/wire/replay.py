"""A server that plays recorded answers byte for byte: delays, framing, breaks. Standard library only; its own process.

    python tests/wire/replay.py CASES.jsonl [ID …]

One port a case. The first line on stdout is a JSON object {case id: port}; the server lives until its stdin is closed.
Each request takes the next of the case's answers; after the last, the last again. An answer:
`{status, headers, chunks: [{delay_ms, data, enc?}], close: normal|abrupt, framing: chunked|eof|length}`, and
`drop_before_response` (the request is read, then the connection is closed), `then_close_after_ms` (the answer is whole,
and the connection is closed so much later although nobody said so).
"""

import http
import json
import socket
import socketserver
import struct
import sys
import threading
import time
from typing import Any

READ_LIMIT_S = 30.0


class Case:
    """The answers of one case, handed out in turn."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.answers: list[dict[str, Any]] = case["input"].get("responses") or [case["input"]]
        self.taken = 0
        self.lock = threading.Lock()

    def next(self) -> dict[str, Any]:
        with self.lock:
            answer = self.answers[min(self.taken, len(self.answers) - 1)]
            self.taken += 1
            return answer


def chunk_bytes(chunk: dict[str, Any]) -> bytes:
    """The bytes of one write: UTF-8, or with `enc: latin1` one byte a character."""
    return str(chunk["data"]).encode("latin-1" if chunk.get("enc") == "latin1" else "utf-8")


def read_request(reader: Any) -> bool:
    """Reads one request and forgets it. False: the peer has closed."""
    length = 0
    line = reader.readline()
    if not line:
        return False
    while line not in (b"\r\n", b"\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        line = reader.readline()
    reader.read(length)
    return True


def head(answer: dict[str, Any], framing: str, length: int) -> bytes:
    status = answer.get("status", 200)
    try:
        reason = http.HTTPStatus(status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {status} {reason}"]
    lines += [f"{name}: {value}" for name, value in answer.get("headers", {}).items()]
    lines.append(
        {"chunked": "transfer-encoding: chunked", "eof": "connection: close"}.get(framing, f"content-length: {length}")
    )
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def play(answer: dict[str, Any], sock: socket.socket) -> bool:
    """Sends one answer. Returns whether the connection stays open."""
    chunks = answer.get("chunks", [])
    framing = answer.get("framing") or ("chunked" if answer.get("status", 200) == 200 else "length")
    abrupt = answer.get("close") == "abrupt"
    length = sum(len(chunk_bytes(chunk)) for chunk in chunks) + abrupt  # abrupt: one byte never comes
    sock.sendall(head(answer, framing, length))
    for chunk in chunks:
        time.sleep(chunk.get("delay_ms", 0) / 1000)
        data = chunk_bytes(chunk)
        sock.sendall(b"%x\r\n%b\r\n" % (len(data), data) if framing == "chunked" and data else data)
    if abrupt:
        time.sleep(0.02)  # a reset discards what the peer has not read yet
        if framing == "eof":  # without any framing only a reset tells a break from an end
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False
    if framing == "chunked":
        sock.sendall(b"0\r\n\r\n")
    if "then_close_after_ms" in answer:
        time.sleep(answer["then_close_after_ms"] / 1000)
        return False
    return framing != "eof"


class Player(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        sock: socket.socket = self.request
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(READ_LIMIT_S)
        try:
            with sock.makefile("rb") as reader:
                while read_request(reader):
                    answer = self.server.case.next()  # type: ignore[attr-defined]
                    if answer.get("drop_before_response") or not play(answer, sock):
                        return
        except (OSError, ValueError):
            return  # the client went away, or sent no HTTP


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def shutdown_request(self, request: Any) -> None:
        self.close_request(request)  # without a shutdown first: SO_LINGER 0 makes it a reset


def main(path: str, *ids: str) -> None:
    ports = {}
    with open(path, encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines if line.strip()]
    for case in cases:
        if ids and case["id"] not in ids:
            continue
        server = Server(("127.0.0.1", 0), Player)
        server.case = Case(case)  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True).start()
        ports[case["id"]] = server.server_address[1]
    print(json.dumps(ports), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
