"""The progress line, word by word, and that it fits whatever the numbers are."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenswarm import format
from tokenswarm.progress import WIDTH, Phase, Progress, line

STEADY = Progress(
    phase=Phase.STEADY,
    step=2,
    steps=4,
    users=5,
    target_users=5,
    left_s=13.2,
    tokens_per_s=212.4,
    p50_s=0.0842,
    p95_s=0.131,
    ok=37,
)


def test_a_steady_step() -> None:
    assert line(STEADY) == "step 2/4 · 5 users · 0:14 left · 212 tok/s · TTFT p50 84.2 ms p95 131 ms · 37 ok · 0 errors"


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (
            Progress(phase=Phase.SPAWNING, step=3, steps=4, users=7, target_users=20, ok=1),
            "step 3/4 · starting users: 7 of 20 · 1 ok · 0 errors",
        ),
        (
            Progress(phase=Phase.WARMUP, step=1, steps=4, users=1, target_users=1, left_s=30, tokens_per_s=90),
            "step 1/4 · 1 user · warming up, 0:30 · 90 tok/s · 0 ok · 0 errors",
        ),
        (
            Progress(phase=Phase.STEADY, step=1, steps=1, users=19, target_users=20, left_s=3723, errors=1),
            "step 1/1 · 19 of 20 users · 1:02:03 left · 0 ok · 1 error",
        ),
        (
            Progress(phase=Phase.DRAINING, step=4, steps=4, users=0, target_users=50, in_flight=12, ok=9, cancelled=3),
            "step 4/4 · draining, 12 in flight · 3 cancelled · 9 ok · 0 errors",
        ),
        (
            Progress(phase=Phase.STEADY, step=1, steps=1, users=1, target_users=1, lost_rows=2, ok=12345),
            "step 1/1 · 1 user · 12,345 ok · 0 errors · 2 ROWS NOT RECORDED",
        ),
    ],
)
def test_words(progress: Progress, words: str) -> None:
    assert line(progress) == words


def test_a_terminal_without_our_signs() -> None:
    plain = line(STEADY, "ascii")
    assert plain == "step 2/4 | 5 users | 0:14 left | 212 tok/s | TTFT p50 84.2 ms p95 131 ms | 37 ok | 0 errors"
    assert line(STEADY, "utf-8") == line(STEADY)
    assert line(STEADY, "no-such-encoding") == plain


_big = st.integers(0, 10**10)
_time = st.none() | st.floats(0, 1e7)


@settings(deadline=None)
@given(
    st.builds(
        Progress,
        phase=st.sampled_from(Phase),
        step=st.integers(1, 10**5),
        steps=st.integers(1, 10**5),
        users=_big,
        target_users=_big,
        left_s=_time,
        in_flight=st.none() | _big,
        tokens_per_s=st.none() | st.floats(0, 1e9),
        p50_s=_time,
        p95_s=_time,
        ok=_big,
        errors=_big,
        cancelled=_big,
        lost_rows=_big,
    )
)
@example(
    Progress(
        phase=Phase.SPAWNING,
        step=10**5 - 1,
        steps=10**5 - 1,
        users=99_999,
        target_users=99_999,
        left_s=1e6,
        tokens_per_s=99_999.0,
        p50_s=9_999.0,
        p95_s=9_999.0,
        ok=99_999,
        errors=99_999,
        cancelled=99_999,
        lost_rows=99_999,
    )
)
def test_it_fits_and_never_hides_errors(progress: Progress) -> None:
    text = line(progress, "ascii")
    assert text.isascii()
    assert len(line(progress)) <= WIDTH
    assert len(text) <= WIDTH
    assert f"{format.count(progress.errors)} error" in text
    assert ("ROWS NOT RECORDED" in text) == (progress.lost_rows > 0)


@pytest.mark.parametrize(
    ("value_s", "words"),
    [
        (None, "–"),
        (math.nan, "–"),
        (0.0, "0 µs"),
        (0.00000042, "0.42 µs"),
        (0.00084, "840 µs"),
        (0.0009996, "1.00 ms"),
        (0.0999, "99.9 ms"),
        (0.099951, "100 ms"),
        (0.9994, "999 ms"),
        (0.99951, "1.00 s"),
        (12.345, "12.3 s"),
        (1234.5, "1234 s"),
    ],
)
def test_spans(value_s: float | None, words: str) -> None:
    assert format.span(value_s) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (0, "0"),
        (12345.4, "12,345"),
        (99_999, "99,999"),
        (100_000, "100k"),
        (1_234_567, "1.23M"),
        (999_600_000, "1.00G"),
        (1e13, "1.00e+13"),
    ],
)
def test_counts(value: float | None, words: str) -> None:
    assert format.count(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "–"), (0.0, "0 %"), (0.0001, "<0.1 %"), (0.004, "0.4 %"), (0.12, "12 %"), (1.0, "100 %")],
)
def test_ratios(value: float | None, words: str) -> None:
    assert format.ratio(value) == words


@pytest.mark.parametrize(
    ("value_s", "words"), [(None, "–"), (-3.0, "0:00"), (0.1, "0:01"), (59.2, "1:00"), (3600.0, "1:00:00")]
)
def test_clocks(value_s: float | None, words: str) -> None:
    assert format.clock(value_s) == words
