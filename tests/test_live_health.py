"""What speaks against the client while a run goes on: each reason, provoked, at its limits."""

import dataclasses
from typing import Any

import pytest

from tokenswarm import trust
from tokenswarm.live_health import Level, findings, verdict
from tokenswarm.live_sketch import Gaps
from tokenswarm.live_tally import Tally
from tokenswarm.record import HealthRecord, Outcome, RequestRecord, Stamp, TokensFrom

SOUND = HealthRecord(
    at=1.0,
    worker="w1",
    users=4,
    in_flight=4,
    cpu_ratio=0.1,
    loop_lag_max_us=100,
    reads=10,
    kernel_reads=10,
    backlog=0,
    rss_bytes=1,
    clock_step_us=0,
    stolen_ratio=0.0,
)


def request(number: int, **more: Any) -> RequestRecord:
    known: dict[str, Any] = {
        "request_id": str(number),
        "worker": "w1",
        "user": "u",
        "task": "chat",
        "sent_at": 1.0,
        "chunk_us": tuple(range(10_000, 210_000, 10_000)),
        "ended_us": 200_000,
        "outcome": Outcome.OK,
        "output_tokens": 20,
        "tokens_from": TokensFrom.USAGE,
        "stamp": Stamp.KERNEL,
        "lag_max_us": 100,
        "coalesced": 0,
    }
    return RequestRecord(**known | more)


def tally(*requests: RequestRecord, **health: Any) -> Tally:
    found = Tally()
    for one in requests or [request(number) for number in range(20)]:
        found.add(one, Gaps.between(one.chunk_us))
    for _ in range(10):
        found.add_health(dataclasses.replace(SOUND, **health))
    return found


def test_a_client_that_keeps_up() -> None:
    assert findings(tally(), 4) == []
    assert verdict([], True)[0] is Level.VALID
    assert verdict([], False)[0] is None


@pytest.mark.parametrize("limits", [value for name, value in vars(trust).items() if name.isupper()])
def test_limits_are_in_order(limits: tuple[float, float]) -> None:
    assert 0 < limits[0] < limits[1]


@pytest.mark.parametrize(
    ("health", "level", "words"),
    [
        ({"cpu_ratio": 0.85}, Level.SUSPECT, "client CPU 85% of a core (worker w1)"),
        ({"cpu_ratio": 0.97}, Level.INVALID, "client CPU 97% of a core (worker w1)"),
        ({"stolen_ratio": 0.06}, Level.SUSPECT, "a hypervisor gave 6% of the client machine's CPU to others"),
        ({"stolen_ratio": 0.9}, Level.SUSPECT, "a hypervisor gave 90%"),
        ({"clock_step_us": -500}, Level.SUSPECT, "the wall clock moved by 5.0 ms"),
        ({"clock_step_us": 20_000}, Level.INVALID, "the wall clock moved by 200.0 ms"),
        ({"users": 3}, Level.INVALID, "3.0 users were up instead of 4"),
    ],
)
def test_the_state_of_the_process(health: dict[str, Any], level: Level, words: str) -> None:
    ((found, said),) = findings(tally(**health), 4)
    assert (found, said[: len(words)]) == (level, words)


@pytest.mark.parametrize("share", [None, 0.0, 0.04])
def test_a_little_stolen_time_or_a_system_that_does_not_tell(share: float | None) -> None:
    assert findings(tally(stolen_ratio=share), 4) == []


@pytest.mark.parametrize(
    ("odd", "level", "words"),
    [
        ({"stamp": Stamp.USER}, Level.SUSPECT, "5% of the requests have arrival times taken by this process"),
        ({"coalesced": 10}, Level.SUSPECT, "2.5% of the chunks were merged"),
        ({"coalesced": 20}, Level.SUSPECT, "5.0% of the chunks were merged"),
        ({"coalesced": 40}, Level.INVALID, "10.0% of the chunks were merged"),
    ],
)
def test_how_it_reads(odd: dict[str, Any], level: Level, words: str) -> None:
    ((found, said),) = findings(tally(*[request(number) for number in range(19)], request(19, **odd)), 4)
    assert (found, said[: len(words)]) == (level, words)


def test_reads_that_are_late() -> None:
    late = [request(number, lag_max_us=6_000 if number < 2 else 100) for number in range(20)]
    ((found, said),) = findings(tally(*late), 4)
    assert (found, said) == (Level.SUSPECT, "10% of the requests were read later than half the median ITL")


def test_a_lost_worker_comes_first() -> None:
    found = findings(tally(cpu_ratio=0.85, users=3), 4, lost=["w2"])
    assert [level for level, _ in found] == [Level.INVALID, Level.SUSPECT]
    assert verdict(found, True)[1].startswith("worker w2 was lost")
