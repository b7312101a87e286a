"""The pulse takes counters, and writes rows while others run."""

import collections
import csv
import dataclasses
import time
from pathlib import Path
from typing import Any

import gevent
import pytest

from tokenswarm import pulse as module
from tokenswarm.pulse import Pulse
from tokenswarm.record import HealthRecord, columns
from tokenswarm.recorder import Recorder
from tokenswarm.runfolder import RunFolder


@dataclasses.dataclass
class Counters:
    reads: int = 0
    unstamped_reads: int = 0
    chunks: int = 0
    lag_max_ns: int = 0


@dataclasses.dataclass
class Carrying:
    carried: dict[int, int] = dataclasses.field(default_factory=dict)
    backlog: int = 0


class FakeClient:
    """What the pulse looks at of a ChatClient."""

    def __init__(self) -> None:
        self.worker = "w1"
        self.collector, self.watch = Counters(), Counters()
        self.pool = self.digest = Carrying()


@pytest.fixture
def recorder(tmp_path: Path) -> Any:
    recorder = Recorder(RunFolder.create(tmp_path, "a"), "w1")
    yield recorder
    recorder.close()


def rows(tmp_path: Path) -> list[dict[str, str]]:
    with open(tmp_path / "a" / "health-w1.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_is_of_one_interval(recorder: Recorder) -> None:
    client: Any = FakeClient()
    client.collector.reads = 99  # before the run
    pulse = Pulse(client, recorder, lambda: 7)
    client.collector = Counters(reads=10, unstamped_reads=1, lag_max_ns=3_000_000)
    client.watch.lag_max_ns = 5_000_999
    client.pool.carried, client.digest.backlog = {1: 1, 2: 2}, 4
    before = time.time()
    first, second = pulse.take(), pulse.take()
    assert (first.reads, first.kernel_reads, first.loop_lag_max_us) == (10, 9, 5000)
    assert (first.users, first.in_flight, first.backlog, first.worker) == (7, 2, 4, "w1")
    assert before <= first.at <= second.at <= time.time()
    assert first.rss_bytes > 1_000_000
    assert (second.reads, second.kernel_reads, second.loop_lag_max_us) == (0, 0, 0)
    assert client.collector == Counters()
    client.collector.lag_max_ns = 2_000_000
    assert pulse.take().loop_lag_max_us == 2000
    pulse.close()


def test_a_clock_that_was_set_is_seen_once(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    pulse = Pulse(FakeClient(), recorder, lambda: 0)  # type: ignore[arg-type]
    clocks, second_ns = pulse._clocks, 1_000_000_000
    clocks.monotonic_ns, clocks.wall_ns = 5 * second_ns, 1_700_000_000 * second_ns
    now = {"monotonic_ns": 6 * second_ns, "time_ns": 1_699_999_999 * second_ns}  # a second later, set back by two
    for name in now:
        monkeypatch.setattr(module.time, name, lambda name=name: now[name])
    first = pulse.take()
    now["monotonic_ns"] += second_ns
    now["time_ns"] += second_ns + 7_000
    second = pulse.take()
    monkeypatch.undo()
    pulse.close()
    assert (first.at, first.clock_step_us) == (1_699_999_999.0, -2_000_000)
    assert second.clock_step_us == 7


Times = collections.namedtuple("Times", ["user", "idle", "steal", "guest", "guest_nice"])


def test_time_that_a_hypervisor_took(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all cores; a guest's time is in its host's already."""
    times = iter([Times(10, 20, 5, 7, 0), Times(10.5, 21, 5.5, 7.4, 0), Times(11, 22.5, 5.5, 7.4, 0)])
    monkeypatch.setattr(module.psutil, "cpu_times", lambda: next(times))
    pulse = Pulse(FakeClient(), recorder, lambda: 0)  # type: ignore[arg-type]
    assert [pulse.take().stolen_ratio, pulse.take().stolen_ratio] == [pytest.approx(0.25), 0.0]
    untold = collections.namedtuple("untold", ["user", "idle"])(1.0, 2.0)
    monkeypatch.setattr(module.psutil, "cpu_times", lambda: untold)
    pulse._stolen = module._Stolen()
    assert pulse.take().stolen_ratio is None
    pulse.close()


def test_cpu_ratio_is_cpu_time_over_time(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    pulse = Pulse(FakeClient(), recorder, lambda: 0)  # type: ignore[arg-type]
    clocks = pulse._clocks
    clocks.cpu_s, clocks.monotonic_ns = 10.0, 5_000_000_000
    monkeypatch.setattr(module.time, "process_time", lambda: 10.5)
    monkeypatch.setattr(module.time, "monotonic_ns", lambda: 7_000_000_000)
    ratio = pulse.take().cpu_ratio
    monkeypatch.undo()
    pulse.close()
    assert ratio == pytest.approx(0.25)


def test_rows_come_while_others_run_and_a_last_one_at_the_end(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    pulse = Pulse(FakeClient(), recorder, lambda: 1)  # type: ignore[arg-type]
    with gevent.Timeout(30):
        while len(rows(tmp_path)) < 3:
            gevent.sleep(0.01)
    pulse.close()
    written = rows(tmp_path)
    assert tuple(written[0]) == columns(HealthRecord)
    times = [float(row["at"]) for row in written]
    assert times == sorted(times)
    gevent.sleep(0.03)
    pulse.close()
    assert len(rows(tmp_path)) == len(written) >= 4
