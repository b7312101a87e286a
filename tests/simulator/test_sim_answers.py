"""Tokens, prompts and answers: what is counted is what is said."""

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.answers import LengthSettings, PlannedAnswer, json_text, plan_answer
from simulator.tokens import END, apply_template, block_hashes, tokenize
from simulator.words import CHINESE, ENGLISH

LENGTHS = LengthSettings(median_tokens=100, sigma=0.5)


def plan(key: str, **overrides: object) -> PlannedAnswer:
    limits = {"max_tokens": 4000, "min_tokens": 0, "ignore_eos": False, "cjk": False, **overrides}
    return plan_answer(key, LENGTHS, **limits)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        ("你好。Tokyo東京", ["你", "好", "。", "Tokyo", "東", "京"]),
        ("internationalization", ["internationa", "lization"]),
        (" \n\tone  two ", ["one", "two"]),
        ("a_b 3.14 🙂", ["a_b", "3", ".", "14", "🙂"]),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


def test_every_word_of_an_answer_is_one_token() -> None:
    assert [text for text in [*ENGLISH, *CHINESE] if len(tokenize(text)) != 1] == []


@pytest.mark.parametrize("cjk", [False, True])
def test_an_answer_has_as_many_tokens_as_it_was_planned_with(cjk: bool) -> None:
    answer = plan("a", cjk=cjk, ignore_eos=True, max_tokens=500)
    assert (len(answer.texts), answer.finish_reason) == (500, "length")
    assert tokenize("".join(answer.texts)) == answer.tokens


def test_the_template_costs_three_a_message_and_two() -> None:
    assert len(apply_template([("system", "Be brief."), ("user", "Hi")])) == 3 + 1 + 3 * 2 + 2


def test_a_conversation_begins_with_what_came_before() -> None:
    asked = [("user", "What is up?")]
    answer = plan("a")
    assert answer.finish_reason == "stop"
    before = [*apply_template(asked), *answer.tokens]
    after = apply_template([*asked, ("assistant", "".join(answer.texts)), ("user", "Really?")])
    assert after[: len(before)] == before
    assert before[-1] == END


def test_answers_depend_on_the_key_alone() -> None:
    assert plan("a") == plan("a")
    assert len({tuple(plan(key).texts) for key in "abcdef"}) == 6


def test_natural_lengths_spread_around_the_median() -> None:
    tokens = [len(plan(str(index)).texts) for index in range(400)]
    assert 85 < statistics.median(tokens) < 115
    assert max(tokens) > 2 * min(tokens)


def test_limits_on_lengths() -> None:
    cut = plan("a", max_tokens=5)
    assert (len(cut.texts), cut.finish_reason, cut.texts[-1] != "") == (5, "length", True)
    least = plan("a", min_tokens=1000)
    assert (len(least.texts), least.finish_reason, least.texts[-1]) == (1001, "stop", "")


@settings(max_examples=50, deadline=None, database=None)
@given(st.lists(st.sampled_from("ab"), max_size=20), st.lists(st.sampled_from("ab"), max_size=20))
def test_block_hashes_agree_exactly_as_far_as_the_beginnings_do(first: list[str], second: list[str]) -> None:
    ours, theirs = block_hashes(first, 4), block_hashes(second, 4)
    assert (len(ours), len(theirs)) == (len(first) // 4, len(second) // 4)
    for index, pair in enumerate(zip(ours, theirs, strict=False), start=1):
        assert (pair[0] == pair[1]) == (first[: index * 4] == second[: index * 4])


def test_json_text_escapes() -> None:
    assert json_text([' "', "\n", "你"]) == '" \\"\\n你"'.encode()
