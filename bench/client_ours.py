"""Our own client in the closed loop, as a run uses it: requests, parsing and rows on the disk. A process of its own."""

from gevent import monkey

if __name__ == "__main__":
    monkey.patch_all()

import gc
import tempfile
import time
from pathlib import Path

import gevent
import psutil

from bench.task import Task, closed_loop
from bench.truth import Comparison, tell
from tokenswarm.client import ChatClient, ChatSettings
from tokenswarm.digest import Reading
from tokenswarm.record import Outcome, Stamp
from tokenswarm.recorder import Recorder
from tokenswarm.runfolder import RunFolder
from tokenswarm.session import GC_THRESHOLDS
from tokenswarm.target import parse_target

UNTRUE_NS = 500_000  # a TTFT that is off by more must be flagged in its row
MEMORY_EVERY_S = 0.25


class Measuring:
    """What is kept of the measured rounds: sums in any case, whole answers only where their texts are compared."""

    def __init__(self, recorder: Recorder) -> None:
        self.on = False
        self.tokens = self.coalesced = self.kernel_stamped = self.answers = 0
        self.first_ns, self.last_ns = 1 << 62, 0  # arrivals
        self.kept: list[Reading] = []
        self._recorder = recorder

    def on_record(self, reading: Reading) -> None:
        self._recorder.write(reading)
        record = reading.record
        assert record is not None
        if record.outcome is not Outcome.OK:
            raise RuntimeError(f"a request ended {record.outcome}: {record.error_class} {record.detail}")
        if not self.on:
            return
        self.answers += 1
        self.tokens += len(record.chunk_us)
        self.coalesced += record.coalesced or 0
        self.kernel_stamped += record.stamp is Stamp.KERNEL
        sent_ns = reading.exchange.sent_ns
        self.first_ns = min(self.first_ns, sent_ns + record.chunk_us[0] * 1000)
        self.last_ns = max(self.last_ns, sent_ns + record.chunk_us[-1] * 1000)
        if reading.keep_text:
            self.kept.append(reading)

    def compare(self) -> dict[str, object]:
        """Arrivals against the truth; how many untrue TTFTs there were, and how many of them their rows flag."""
        comparison = Comparison()
        untrue = flagged = 0
        for reading in self.kept:
            answer, record = reading.answer, reading.record
            assert answer is not None
            assert record is not None
            if abs(comparison.add(reading.exchange.sent_ns, answer.chunk_marks, answer.chunk_texts)) > UNTRUE_NS:
                untrue += 1
                flagged += bool(record.coalesced) or record.stamp is not Stamp.KERNEL
        return {**comparison.summary(), "untrue_ttfts": untrue, "untrue_ttfts_flagged": flagged}


class Memory:
    """Resident bytes and unparsed arrivals over time, from another greenlet."""

    def __init__(self, client: ChatClient) -> None:
        self.samples: list[tuple[float, int, int]] = []  # seconds, resident bytes, arrivals not yet parsed
        self._client = client
        self._process = psutil.Process()
        self._began_s = time.monotonic()
        self._greenlet = gevent.spawn(self._work)

    def _work(self) -> None:
        while True:
            self.take()
            gevent.sleep(MEMORY_EVERY_S)

    def take(self) -> None:
        waiting = sum(len(reading.exchange.unread) for reading in self._client.digest.open)
        self.samples.append((time.monotonic() - self._began_s, self._process.memory_info().rss, waiting))

    def close(self) -> None:
        self._greenlet.kill()
        self.take()


def measure(task: Task, folder: Path) -> dict[str, object]:
    recorder = Recorder(RunFolder.create(folder, "bench"), "bench")
    measuring = Measuring(recorder)
    settings = ChatSettings(targets=(parse_target(task.url),), model="bench")
    client = ChatClient(settings, worker="bench", on_record=measuring.on_record)
    client.prepare(task.tokens)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)  # as a session does
    memory = Memory(client) if task.watch_memory else None
    cpu_s = began_s = 0.0

    def ask(user: int) -> None:
        messages = task.body(user)["messages"]
        client.chat(messages, user=f"user-{user}", max_tokens=task.tokens, keep_text=task.keep_text)

    def warm() -> None:
        nonlocal cpu_s, began_s
        client.digest.drain()
        client.collector.lag_max_ns = client.watch.lag_max_ns = 0
        measuring.on = True
        cpu_s, began_s = time.process_time(), time.monotonic()

    closed_loop(task, ask, warm)
    client.digest.drain()
    cpu_s, took_s = time.process_time() - cpu_s, time.monotonic() - began_s
    lags = {
        "read_lag_max_ms": client.collector.lag_max_ns / 1e6,
        "loop_lag_max_ms": client.watch.lag_max_ns / 1e6,
    }
    if memory is not None:
        memory.close()
    client.close()
    recorder.close()
    return {
        "tokens": measuring.tokens,
        "took_s": took_s,
        "tokens_per_s": measuring.tokens / ((measuring.last_ns - measuring.first_ns) / 1e9),
        "cpu_us": cpu_s / measuring.tokens * 1e6,
        "cpu_cores": cpu_s / took_s,
        "rows": recorder.rows,
        "coalesced_share": measuring.coalesced / measuring.tokens,
        "kernel_stamp_share": measuring.kernel_stamped / measuring.answers,
        **lags,
        **(measuring.compare() if task.keep_text else {}),
        **({"memory": memory.samples} if memory is not None else {}),
    }


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tokenswarm-bench-") as folder:
        tell(measure(Task.from_arguments(), Path(folder)))


if __name__ == "__main__":
    main()
