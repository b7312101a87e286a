"""Work in parts gives what it would give in one, and never goes on for longer than a part."""

import itertools
import operator
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.streamed import chunk
from tokenswarm.asked import Asked
from tokenswarm.digest import Reading
from tokenswarm.errors import End
from tokenswarm.exchange import Exchange, Limits
from tokenswarm.live import Live
from tokenswarm.live_sketch import warm_up
from tokenswarm.long_work import PART, hold_breath, parts


@given(st.integers(0, 3 * PART), st.integers(0, 1))
def test_parts_are_the_whole(count: int, shared: int) -> None:
    breaths = itertools.count()
    numbers = list(range(count))
    found = list(parts(numbers, lambda: next(breaths), shared=shared))
    assert max(map(len, found)) <= PART + shared
    assert next(breaths) == len(found) - 1
    if shared:
        gaps = [gap for part in found for gap in map(operator.sub, part[1:], part)]
        assert gaps == [1] * max(0, count - 1)
    else:
        assert [number for part in found for number in part] == numbers


def long_reading(tokens: int) -> Reading:
    exchange = Exchange(b"", Limits())
    exchange.status, exchange.sent_ns = 200, 1_000_000_000
    for number in range(tokens):
        exchange.unread.append(chunk({"content": f" {number}"}).encode())
        exchange.unread_ns.append((100 + number) * 10_000_000 + number % 7 * 1000)
    exchange.finish(End.COMPLETE, exchange.unread_ns[-1])
    one = Reading(Asked(request_id="1", worker="w", user="u", task="t"), exchange, keep_text=False)
    while one.read_on(96):
        pass
    one.close()
    return one


@pytest.mark.parametrize("tokens", [PART, PART + 1, PART + 2, 20_000])
def test_a_long_answer_is_recorded_with_looks_at_the_sockets(tokens: int) -> None:
    at_once, in_parts, breaths = long_reading(tokens), long_reading(tokens), itertools.count()
    at_once.assemble(hold_breath)
    in_parts.assemble(lambda: next(breaths))
    assert at_once.record == in_parts.record
    record = in_parts.record
    assert record is not None
    assert record.chunk_us[-1] == (in_parts.exchange.ended_ns - 1_000_000_000) // 1000  # type: ignore[operator]
    live = Live(lambda: next(breaths))
    live.add(record)
    # times, gaps between them, and those again for the live figures
    most = 3 * ((tokens - 1) // PART)
    assert most - 2 <= next(breaths) <= most


def longest_stretch() -> float:
    """Of the work for an answer of 20,000 tokens, the largest share without a look at the sockets."""
    one, looks = long_reading(20_000), [time.thread_time()]

    def look() -> None:
        looks.append(time.thread_time())

    one.assemble(look)
    look()
    assert one.record is not None
    Live(look).add(one.record)
    look()
    return max(map(operator.sub, looks[1:], looks)) / (looks[-1] - looks[0])


def test_no_stretch_without_a_look_is_long() -> None:
    warm_up()
    assert min(longest_stretch() for _ in range(5)) < 0.25  # the least: others may use the machine
