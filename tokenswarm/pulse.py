"""The pulse of a client process: one row about every second that says whether its figures can be trusted."""

import time
import typing
from collections.abc import Callable

import gevent
import psutil

from tokenswarm.record import HealthRecord

if typing.TYPE_CHECKING:
    from tokenswarm.client import ChatClient
    from tokenswarm.recorder import Recorder

EVERY_S = 1.0


class Pulse:
    """Writes a HealthRecord every EVERY_S seconds until it is closed, and a last one then.

    Counters of the collector and the watch are taken and set to zero: there is one pulse per client. `users`: how many
    this process runs now.
    """

    def __init__(self, client: "ChatClient", recorder: "Recorder", users: Callable[[], int]) -> None:
        self._client = client
        self._recorder = recorder
        self._users = users
        self._process = psutil.Process()
        self._clocks = _Clocks()
        self._stolen = _Stolen()
        self._take_counters()  # what came before is not of the first interval
        self._greenlet = gevent.spawn(self._work)

    def _work(self) -> None:
        due_s = time.monotonic()
        while True:
            due_s = max(due_s + EVERY_S, time.monotonic())  # late rows are not made up for
            gevent.sleep(due_s - time.monotonic())
            self._recorder.write_health(self.take())

    def take(self) -> HealthRecord:
        """The state over the interval since the last row."""
        lag_ns, reads, kernel_reads = self._take_counters()
        at, cpu_ratio, clock_step_us = self._clocks.take()
        stolen_ratio = self._stolen.take()
        return HealthRecord(
            at=at,
            worker=self._client.worker,
            users=self._users(),
            in_flight=len(self._client.pool.carried),
            cpu_ratio=cpu_ratio,
            loop_lag_max_us=lag_ns // 1000,
            reads=reads,
            kernel_reads=kernel_reads,
            backlog=self._client.digest.backlog,
            rss_bytes=self._process.memory_info().rss,
            clock_step_us=clock_step_us,
            stolen_ratio=stolen_ratio,
        )

    def _take_counters(self) -> tuple[int, int, int]:
        collector, watch = self._client.collector, self._client.watch
        reads, kernel_reads = collector.reads, max(0, collector.reads - collector.unstamped_reads)
        lag_ns = max(collector.lag_max_ns, watch.lag_max_ns)
        collector.lag_max_ns = watch.lag_max_ns = collector.reads = collector.unstamped_reads = 0
        return lag_ns, reads, kernel_reads

    def close(self) -> None:
        """Stop, and write the row of the unfinished interval. Before the recorder is closed."""
        if self._greenlet is None:
            return
        self._greenlet.kill()
        self._greenlet = None
        self._recorder.write_health(self.take())


class _Stolen:
    """What a hypervisor took of this machine's CPU time, from one taking to the next: nothing in it moves meanwhile, and
    what the kernel stamps afterwards has a later time.
    """

    def __init__(self) -> None:
        self._before = psutil.cpu_times()

    def take(self) -> float | None:
        """Share of the time of all cores since the last call; None where the system does not tell."""
        before, self._before = self._before, psutil.cpu_times()
        if not hasattr(before, "steal"):
            return None
        own = len(before) - 2 if hasattr(before, "guest_nice") else len(before)  # a guest's time is in its host's
        passed_s = sum(self._before[:own]) - sum(before[:own])
        return max(0.0, self._before.steal - before.steal) / passed_s if passed_s > 0 else None


class _Clocks:
    """CPU time and the movement of the wall clock against the monotonic one, from one taking to the next."""

    def __init__(self) -> None:
        self._read()

    def _read(self) -> None:
        self.cpu_s = time.process_time()
        self.monotonic_ns = time.monotonic_ns()
        self.wall_ns = time.time_ns()

    def take(self) -> tuple[float, float, int]:
        """(epoch s, CPU seconds per second, movement of the wall clock in µs) since the last call."""
        cpu_s, monotonic_ns, wall_ns = self.cpu_s, self.monotonic_ns, self.wall_ns
        self._read()
        passed_ns = self.monotonic_ns - monotonic_ns
        step_us = round((self.wall_ns - wall_ns - passed_ns) / 1000)
        return self.wall_ns / 1e9, (self.cpu_s - cpu_s) / (max(passed_ns, 1) / 1e9), step_us
