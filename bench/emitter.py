"""An emitter of token streams that writes the truth into each token: `python -m bench.emitter [--rate 100]`.

All streams get their token in the same tick, as from a batching server. A token's content is the CLOCK_REALTIME nanosecond
just before it was written, followed by a space; the first one is preceded by the nanosecond at which the kernel received
the request and a colon. Prints `emitter listening on http://127.0.0.1:PORT/v1`. Ends with its standard input.
"""

import argparse
import json
import os
import select
import socket
import struct
import sys
import time

SO_TIMESTAMPNS = 35
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%s "}}]}\n\n'
now_ns = time.time_ns


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Stream:
    """One connection: a request in, then tokens out, tick by tick."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""
        self.unsent = b""
        self.left = 0
        self.asked = 0
        self.received_ns = 0

    def readable(self) -> bool:
        """False when the client is gone; a whole request makes `left` positive."""
        try:
            data, ancillary, _, _ = self.sock.recvmsg(1 << 20, 64)
        except OSError:
            return False
        if not data:
            return False
        seconds, nanos = struct.unpack("qq", ancillary[0][2]) if ancillary else (0, now_ns())
        self.received_ns = seconds * 1_000_000_000 + nanos
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if found:
            lower = head.lower()
            start = lower.find(b"content-length:")
            length = int(lower[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
            if len(rest) >= length:
                self.asked = self.left = int(json.loads(rest[:length]).get("max_tokens", 64))
                self.buffer = rest[length:]
                self.write(HEAD)
        return True

    def write(self, data: bytes) -> None:
        data = self.unsent + data
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.left = 0
            return
        self.unsent = data[sent:]

    def emit(self, many: int) -> None:
        """The next token, or `many` of them at once."""
        for _ in range(min(many, self.left)):
            stamp = b"%d" % now_ns()
            if self.left == self.asked:
                stamp = b"%d:%s" % (self.received_ns, stamp)
            self.left -= 1
            self.write(http_chunk(EVENT % stamp))
        if self.left == 0:
            usage = {"prompt_tokens": 8, "completion_tokens": self.asked, "total_tokens": 8 + self.asked}
            last = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
            last += b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"
            self.write(http_chunk(last) + b"0\r\n\r\n")


def serve(listener: socket.socket, rate: float) -> None:
    """Until standard input ends. `rate`: tokens/s of each stream, one tick a token."""
    poll = select.epoll()
    poll.register(listener.fileno(), select.EPOLLIN)
    poll.register(sys.stdin.fileno(), select.EPOLLIN | select.EPOLLHUP)
    streams: dict[int, Stream] = {}
    tick_s = 1 / rate
    due = time.monotonic() + tick_s
    while True:
        for fd, _ in poll.poll(max(0.0, due - time.monotonic())):
            if fd == listener.fileno():
                sock, _ = listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
                streams[sock.fileno()] = Stream(sock)
                poll.register(sock.fileno(), select.EPOLLIN)
            elif fd == sys.stdin.fileno():
                if not os.read(sys.stdin.fileno(), 1024):
                    return
            elif not streams[fd].readable():
                poll.unregister(fd)
                streams.pop(fd).sock.close()
        if time.monotonic() >= due:
            for stream in streams.values():
                if stream.left:
                    stream.emit(1)
            due = max(due + tick_s, time.monotonic())


def main() -> None:
    parser = argparse.ArgumentParser(description="Emit token streams with their true send times.")
    parser.add_argument("--rate", type=float, default=100.0, help="tokens/s of each stream")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", options.port), backlog=4096)
    print(f"emitter listening on http://127.0.0.1:{listener.getsockname()[1]}/v1", flush=True)
    serve(listener, options.rate)


if __name__ == "__main__":
    main()
