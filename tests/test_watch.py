"""Time limits are passed no sooner than the watch says, and none is missed because it did not look."""

from hypothesis import given
from hypothesis import strategies as st

from tests.streamed import chunk
from tokenswarm.asked import Asked
from tokenswarm.digest import Reading
from tokenswarm.errors import End
from tokenswarm.exchange import Exchange, Limits
from tokenswarm.watch import due_ns, overdue

LIMIT = st.none() | st.floats(0.001, 5)
S = 1_000_000_000


def reading(limits: Limits, sent_s: float, heard_s: float, begun: bool) -> Reading:
    exchange = Exchange(b"", limits)
    exchange.sent_ns = int(sent_s * S)
    exchange.heard_ns = int((sent_s + heard_s) * S)
    exchange.status = 200
    if begun:
        exchange.unread.append(chunk({"content": "a"}).encode())
        exchange.unread_ns.append(exchange.heard_ns)
    return Reading(Asked(request_id="1", worker="w", user="u", task="t"), exchange, keep_text=False)


@given(LIMIT, LIMIT, LIMIT, st.floats(0, 10), st.floats(0, 10), st.booleans(), st.booleans(), st.floats(0, 30))
def test_nothing_is_overdue_before_it_is_due(
    first_s: float | None,
    stall_s: float | None,
    total_s: float | None,
    sent_s: float,
    heard_s: float,
    begun: bool,
    parsed: bool,
    at_s: float,
) -> None:
    one = reading(Limits(first_token_s=first_s, stall_s=stall_s, total_s=total_s), sent_s, heard_s, begun)
    if parsed:
        one.read_on(9)
    due, at_ns = due_ns(one), int(at_s * S)
    passed = overdue(one, at_ns)
    assert passed is None or at_ns >= due
    told = {End.TIMEOUT_FIRST_TOKEN: first_s, End.TIMEOUT_STALL: stall_s, End.TIMEOUT_TOTAL: total_s}
    for end, limit_s in told.items():
        since_s = sent_s + heard_s if end is End.TIMEOUT_STALL else sent_s
        if limit_s is not None and at_s > since_s + limit_s + 1e-6 and begun is not (end is End.TIMEOUT_FIRST_TOKEN):
            assert passed is not None


def test_what_comes_puts_a_stall_off() -> None:
    one = reading(Limits(stall_s=2.0, first_token_s=None, total_s=None), 1.0, 1.0, begun=True)
    assert due_ns(one) == 4 * S
    one.exchange.unread_ns[-1] = 3 * S
    assert due_ns(one) == 5 * S
    one.read_on(9)
    assert due_ns(one) == 5 * S
    assert overdue(one, 6 * S) == (End.TIMEOUT_STALL, "nothing came for 2 s in mid answer")


@given(st.booleans(), st.floats(0, 5), st.floats(0.001, 3), st.floats(0, 9))
def test_a_stall_may_count_from_the_last_token(parsed: bool, comment_s: float, stall_s: float, at_s: float) -> None:
    """A comment came `comment_s` after the token, parsed with it or not yet."""
    limits = Limits(stall_s=stall_s, stall_by_token=True, first_token_s=None, total_s=None)
    one = reading(limits, 1.0, 1.0, begun=True)
    one.exchange.unread.append(b": comment\n\n")
    one.exchange.unread_ns.append(int((2.0 + comment_s) * S))
    if parsed:
        one.read_on(9)
    due, at_ns = due_ns(one), int(at_s * S)
    assert due == 2 * S + int(stall_s * S)
    passed = overdue(one, at_ns)
    assert (passed is not None) == (at_ns / 1e9 - 2.0 > stall_s)
    assert passed is None or passed[0] is End.TIMEOUT_STALL
