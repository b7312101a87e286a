"""What is said of an answer before its numbers are believed."""

import pytest

from tests.streamed import DONE, MS, STOP, chunk, read, timed, warned, words
from tokenswarm.record import Caution


def test_a_good_answer_has_no_caution() -> None:
    assert warned(timed([100 * MS, 120 * MS, 140 * MS, 160 * MS, 180 * MS])) == ()


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([600 * MS] * 12, True),
        ([600 * MS + n * 20_000 for n in range(12)], True),  # several segments of one flush
        ([300 * MS] * 6 + [600 * MS] * 6, True),  # released in bursts
        ([600 * MS] * 3, False),
        ([10_000 + n * 50_000 for n in range(12)], False),  # nothing was held back: it came at once
        ([n * 20 * MS for n in range(1, 12)], False),
        ([1000 * MS + n * 200_000 for n in range(32)], False),  # a fast engine after a long queue
        ([n * 20 * MS for n in range(1, 12) for _ in range(3)], False),  # three accepted drafts a step
        ([20 * MS] * 4 + [n * 20 * MS for n in range(2, 12)], False),  # one merged read
    ],
)
def test_buffering(marks: list[int], expected: bool) -> None:
    assert (Caution.BUFFERING_SUSPECTED in warned(timed(marks))) is expected


@pytest.mark.parametrize(
    ("texts", "tokens", "expected"),
    [(["a", "b", "c"], 21, True), (["a", "b"], 3, False), (["a"] * 30, 32, False), (["a"] * 49, 34, False)],
)
def test_multi_token_chunks(texts: list[str], tokens: int, expected: bool) -> None:
    answer = timed([n * MS for n in range(1, len(texts) + 1)], completion_tokens=tokens)
    assert (Caution.MULTI_TOKEN_CHUNKS in warned(answer)) is expected


@pytest.mark.parametrize(("tokens", "expected"), [(1, False), (2, False), (3, True), (40, True)])
def test_single_chunk(tokens: int, expected: bool) -> None:
    assert (Caution.SINGLE_CHUNK_RESPONSE in warned(timed([MS], completion_tokens=tokens))) is expected
    assert Caution.SINGLE_CHUNK_RESPONSE in warned(read([*words("A long answer at once."), STOP, DONE]))


def test_hidden_reasoning() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 57}}
    assert Caution.HIDDEN_REASONING in warned(timed([MS, 2 * MS, 3 * MS], completion_tokens=60, **details))
    assert Caution.HIDDEN_REASONING in warned(timed([MS, 2 * MS, 3 * MS], completion_tokens=900))
    assert Caution.HIDDEN_REASONING not in warned(timed([n * MS for n in range(60)], completion_tokens=60, **details))
    usage = {"prompt_tokens": 3, "completion_tokens": 60, **details}
    for shown in ({"reasoning_content": "hm, let me see " * 20}, {"content": "<think>hm</think>"}):
        answer = read([chunk(shown), *words("It", " is"), chunk({}, "stop", usage=usage), DONE])
        assert Caution.HIDDEN_REASONING not in warned(answer)


def test_short_output_only_where_the_end_was_to_be_ignored() -> None:
    answer = timed([MS, 2 * MS, 3 * MS, 4 * MS])
    assert Caution.SHORT_OUTPUT in warned(answer, max_tokens=16, ignore_eos=True)
    assert Caution.SHORT_OUTPUT not in warned(answer, max_tokens=16)
    assert Caution.SHORT_OUTPUT not in warned(answer, max_tokens=4, ignore_eos=True)


def test_prompt_truncated() -> None:
    answer = timed([MS, 2 * MS], prompt_tokens=2050)
    assert Caution.PROMPT_TRUNCATED in warned(answer, expected_prompt_tokens=7900)
    assert Caution.PROMPT_TRUNCATED in warned(answer, prompt_words=6000)
    assert Caution.PROMPT_TRUNCATED not in warned(answer, expected_prompt_tokens=2000)
    assert Caution.PROMPT_TRUNCATED not in warned(answer, prompt_words=1500)
    assert Caution.PROMPT_TRUNCATED not in warned(read([*words("a"), STOP, DONE]), expected_prompt_tokens=7900)


def test_what_is_missing_is_said() -> None:
    assert {Caution.USAGE_MISSING, Caution.DONE_MISSING} <= set(warned(read([*words("a"), STOP])))
    assert Caution.FINISH_REASON_MISSING in warned(read([*words("a"), DONE]))
