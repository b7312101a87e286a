"""An emitter of token streams that writes the truth into each token: `python -m bench.emitter [RATE]`.

The same as `emitter.c`, for where there is no C compiler; it needs about three times the CPU. All streams get their token
in the same tick, as from a batching server. A token's content is the CLOCK_REALTIME nanosecond just before it was written,
followed by a space; the first one is preceded by the nanosecond at which the kernel received the request and a colon. One
write a token; the end of an answer goes with its last token. Prints `emitter listening on http://127.0.0.1:PORT/v1`, ends
with its standard input, and then prints what it did as one line of JSON.
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
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
# the shape and length of vLLM's chunks
EVENT = (
    b'data: {"id":"chatcmpl-8f2b6c0e5d0b4c0f9a7e","object":"chat.completion.chunk","created":1764450000,'
    b'"model":"bench","choices":[{"index":0,"delta":{%s},"logprobs":null,"finish_reason":%s}]}\n\n'
)
SPIN_BELOW_S = 0.001  # a sleep may be late by some 50 µs: shorter ticks are waited for awake
now_ns = time.time_ns


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Stream:
    """One connection: a request in, then tokens out, tick by tick."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.unsent = b""
        self.left = 0
        self._request = b""
        self._asked = 0
        self._received_ns = 0

    def readable(self) -> bool:
        """False when the client is gone; a whole request makes `left` positive."""
        try:
            data, ancillary, _, _ = self.sock.recvmsg(1 << 16, 64)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        seconds, nanos = struct.unpack("qq", ancillary[0][2]) if ancillary else (0, now_ns())
        self._received_ns = seconds * 1_000_000_000 + nanos
        self._request += data
        head, found, rest = self._request.partition(b"\r\n\r\n")
        if found:
            lower = head.lower()
            start = lower.find(b"content-length:")
            length = int(lower[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
            if len(rest) >= length:
                self._asked = self.left = int(json.loads(rest[:length]).get("max_tokens", 64))
                self._request = b""
                self._write(HEAD)
        return True

    def emit(self) -> bool:
        """The next token; False where the client does not read, and its next token is late."""
        if self.unsent:
            self.flush()
            if self.unsent:
                return False
        stamp = b'"content":"%d "' % now_ns()
        if self.left == self._asked:
            stamp = stamp.replace(b':"', b':"%d:' % self._received_ns)
        data = http_chunk(EVENT % (stamp, b"null"))
        self.left -= 1
        if self.left == 0:
            usage = {"prompt_tokens": 8, "completion_tokens": self._asked, "total_tokens": 8 + self._asked}
            last = json.dumps({"choices": [], "usage": usage}, separators=(",", ":")).encode()
            data += http_chunk(EVENT % (b"", b'"length"') + b"data: %s\n\ndata: [DONE]\n\n" % last) + b"0\r\n\r\n"
        self._write(data)
        return True

    def flush(self) -> None:
        self._write(b"")

    def _write(self, data: bytes) -> None:
        data = self.unsent + data
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.left, data, sent = 0, b"", 0
        self.unsent = data[sent:]


class Emitter:
    """The listener, its streams, and what was done so far."""

    def __init__(self, rate: float) -> None:
        self.tokens = self.ticks = self.late_ticks = self.blocked = self.longest_tick_ns = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listener.setblocking(False)
        # on the listener, so that first requests are stamped too
        self.listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._tick_s = 1 / rate
        self._streams: dict[int, Stream] = {}
        self._poll = select.epoll()

    def serve(self) -> None:
        """Until standard input ends."""
        for fd in (self.listener.fileno(), sys.stdin.fileno()):
            self._poll.register(fd, select.EPOLLIN)
        emitting = False
        due = time.monotonic() + self._tick_s
        while True:
            wait_s = max(0.0, due - time.monotonic())
            if self._tick_s < SPIN_BELOW_S:
                wait_s = 0 if emitting else 0.001
            for fd, _ in self._poll.poll(wait_s):
                if fd == self.listener.fileno():
                    self._take_client()
                elif fd == sys.stdin.fileno():
                    if not os.read(fd, 1024):
                        return
                elif not self._streams[fd].readable():
                    self._poll.unregister(fd)
                    self._streams.pop(fd).sock.close()
            now = time.monotonic()
            if now < due:
                continue
            emitting = self._tick()
            after = time.monotonic()
            if emitting:
                self.ticks += 1
                self.longest_tick_ns = max(self.longest_tick_ns, int((after - now) * 1e9))
                self.late_ticks += after >= due + self._tick_s
            due += self._tick_s
            if due < after:  # a missed tick is not made up for: no burst that no server sent
                due = after + self._tick_s

    def _take_client(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._streams[sock.fileno()] = Stream(sock)
        self._poll.register(sock.fileno(), select.EPOLLIN)

    def _tick(self) -> bool:
        """A token for every stream that has some left. Whether there was one."""
        busy = False
        for stream in self._streams.values():
            if stream.left:
                busy = True
                written = stream.emit()
                self.tokens += written
                self.blocked += not written
            elif stream.unsent:
                busy = True
                stream.flush()
        return busy

    def did(self) -> dict[str, float]:
        return {
            "tokens": self.tokens,
            "ticks": self.ticks,
            "late_ticks": self.late_ticks,
            "blocked": self.blocked,
            "longest_tick_ms": self.longest_tick_ns / 1e6,
            "cpu_s": time.process_time(),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description="Emit token streams with their true send times.")
    parser.add_argument("rate", type=float, nargs="?", default=100.0, help="tokens/s of each stream")
    emitter = Emitter(parser.parse_args().rate)
    print(f"emitter listening on http://127.0.0.1:{emitter.listener.getsockname()[1]}/v1", flush=True)
    emitter.serve()
    print(json.dumps(emitter.did()), flush=True)


if __name__ == "__main__":
    main()
