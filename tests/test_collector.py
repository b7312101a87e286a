"""The reader of all streams: its counters, and what it does where the system has neither epoll nor kernel stamps."""

import gevent
import pytest

from tests.reach.scripted import STREAM, Scripted, always, ask, chatting
from tokenswarm import collector
from tokenswarm.record import Outcome, Stamp


def test_every_read_has_a_kernel_stamp_and_is_counted() -> None:
    with Scripted(always(STREAM)) as server, chatting(server.url) as (client, records):
        gevent.sleep(0.05)  # the kernel begins to stamp a moment after it was first asked
        for _ in range(3):
            ask(client)
        assert [record.stamp for record in records] == [Stamp.KERNEL] * 3
        assert client.collector.reads >= 3
        assert client.collector.unstamped_reads == 0
        assert client.collector.lag_max_ns > 0


def test_without_kernel_stamps_the_process_stamps_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "SO_TIMESTAMPNS", 12345)  # as on a system that does not know the option
    with Scripted(always(STREAM)) as server, chatting(server.url) as (client, records):
        ask(client)
        assert records[0].outcome is Outcome.OK
        assert records[0].stamp is Stamp.USER
        assert len(records[0].chunk_us) == 2
        assert client.collector.unstamped_reads == client.collector.reads > 0


def test_without_epoll_each_socket_has_its_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(collector.select, "epoll", raising=False)
    monkeypatch.setattr(collector.monkey, "saved", {})
    with Scripted(always(STREAM)) as server, chatting(server.url) as (client, records):
        assert client.collector._epoll is None
        readings = [gevent.spawn(ask, client) for _ in range(10)]
        gevent.joinall(readings, timeout=20, raise_error=True)
        assert [record.outcome for record in records] == [Outcome.OK] * 10
        assert client.collector.reads > 0
        ask(client, "x" * 3_000_000)  # more than a socket's buffer: the watcher waits for both directions
        assert records[-1].outcome is Outcome.OK


def test_looks_are_closer_where_few_streams_flow() -> None:
    assert collector.DUE_FEW_NS < collector.DUE_NS
    with Scripted(always(STREAM)) as server, chatting(server.url) as (client, _):
        ask(client)
        assert client.collector.few_streams
