"""The fixed prompts: reading a set, and what answers tell."""

import json
import math
from pathlib import Path

import pytest

from analysis import gate, quality, quality_checks
from analysis import quality_metrics as of
from analysis.gate import Exit
from analysis.gate_command import quality_budgets
from analysis.gate_errors import NoEvidence
from analysis.quality_checks import is_refusal, is_valid_json
from analysis.verdicts import Verdict
from tests.gate.kept_on_paper import answer, answers, asked, baseline, run
from tokenswarm.quality import BUILT_IN, answer_from, prompts_of, read_prompts, to_line
from tokenswarm.record import ErrorClass, Outcome
from tokenswarm.runfolder import QUALITY
from tokenswarm.usage_error import UsageError

PERSON = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}


def test_the_set_that_comes_along() -> None:
    prompts = prompts_of(BUILT_IN)
    assert len(prompts) == 20
    assert any(prompt.json_schema for prompt in prompts)
    assert sum(prompt.max_tokens for prompt in prompts) < 1000  # seconds, not minutes


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2 is no JSON"),
        ("[]", "an object"),
        ('{"prompt": "x"}', "the id is missing"),
        ('{"id": "a"}', "either prompt"),
        ('{"id": "a", "prompt": "x", "messages": []}', "either prompt"),
        ('{"id": "a", "messages": [{"role": "user"}]}', "either prompt"),
        ('{"id": "a", "prompt": "x", "expect": 1}', "unknown expect"),
        ('{"id": "a", "prompt": "x", "regex": "("}', "the regex cannot be read"),
        ('{"id": "a", "prompt": "x", "max_tokens": 0}', "max_tokens must be"),
        ('{"id": "a", "prompt": "x", "max_tokens": true}', "max_tokens must be"),
        ('{"id": "a", "prompt": "x", "json_schema": "x"}', "json_schema must be an object"),
        ('{"id": "a", "prompt": "x", "json_schema": {"type": "nope"}}', "the json_schema cannot be read (Unknown type"),
        ('{"id": "a", "prompt": "x", "json_schema": {"pattern": "("}}', "the json_schema cannot be read"),
        ('{"id": "a", "prompt": "x", "json_schema": {"properties": 3}}', "the json_schema cannot be read"),
        ('{"id": "a", "prompt": "x", "json_schema": {"$ref": "#/none"}}', "the json_schema cannot be read"),
        ('{"id": "a", "prompt": "x", "json_schema": {"$ref": "http://127.0.0.1:1/a"}}', "elsewhere"),
        ("[" * 100_000, "line 2 is no JSON"),
        ('{"id": "first", "prompt": "x"}', "stands there twice"),
    ],
)
def test_mistakes_in_a_set_are_said_with_their_line(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('{"id": "first", "prompt": "x"}\n' + line + "\n")
    with pytest.raises(UsageError, match="--quality") as caught:
        read_prompts(path)
    assert words in str(caught.value)


def test_an_empty_or_missing_set_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    for name in ("empty.jsonl", "none.jsonl"):
        with pytest.raises(UsageError, match=name):
            read_prompts(tmp_path / name)


def test_an_answer_is_one_line_and_comes_back(tmp_path: Path) -> None:
    given = answer(
        "a", 'two\nlines "é" 谢', json_schema=PERSON, outcome=Outcome.FAILED, error_class=ErrorClass.OVERLOADED
    )
    line = to_line(given)
    assert line.count("\n") == 1
    assert answer_from(json.loads(line)) == given
    (tmp_path / QUALITY).write_text(line, encoding="utf-8")
    assert quality.read(tmp_path) == {"a": given}
    (tmp_path / QUALITY).write_text(line + '{"id"', encoding="utf-8")
    with pytest.raises(NoEvidence, match="line 2"):
        quality.read(tmp_path)
    assert quality.read(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ('{"name": "Anna"}', True),
        ('```json\n{"name": "Anna"}\n```', True),
        ('{"name": 3}', False),
        ("[]", False),
        ('{"name": "An', False),
        ('Here it is: {"name": "Anna"}', False),
        ("```" + '{"name": "Anna"}' + "```", False),
        ('{"name": "Anna", "age": NaN}', False),  # Python reads it, the standard does not
        ("[" * 100_000, False),
        ("```\n" + "\n" * 100_000, False),
        ("", False),
    ],
)
def test_json_of_the_asked_form(text: str, valid: bool) -> None:
    assert is_valid_json(answer("a", text, json_schema=PERSON)) is valid


def test_a_set_from_an_editor_on_windows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "prompt": "x"}\r\n\r\n{"id": "b", "prompt": "y"}\r\n')
    assert [prompt.id for prompt in read_prompts(path)] == ["a", "b"]


SEPARATORS = "one\u2028two\x85three\x1cfour\u2029five"  # ends of lines to str.splitlines, not to JSON


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps({"id": "a", "prompt": SEPARATORS}, ensure_ascii=False) + "\n", encoding="utf-8")
    (prompt,) = read_prompts(path)
    given = answer("a", SEPARATORS, exact=SEPARATORS)
    assert prompt.messages[0]["content"] == SEPARATORS
    (tmp_path / QUALITY).write_text(to_line(given), encoding="utf-8")
    assert quality.read(tmp_path) == {"a": given}


@pytest.mark.parametrize("content", [b"\xff\xfe\n", b"[]\n", b"3\n", b"\n\n", b'{"prompt": 3}\n', b"[" * 100_000])
def test_damaged_answers_are_no_evidence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / QUALITY).write_bytes(to_line(answer("a", "x")).encode() + content)
    with pytest.raises(NoEvidence, match=r"make the run again"):
        quality.read(tmp_path)


def test_two_answers_to_one_prompt_are_no_evidence(tmp_path: Path) -> None:
    (tmp_path / QUALITY).write_text(to_line(answer("a", "x")) + to_line(answer("a", "y")))
    with pytest.raises(NoEvidence, match="two answers to one prompt"):
        quality.read(tmp_path)


@pytest.mark.parametrize("how", [{"regex": "^(a+)+$"}, {"json_schema": {"type": "string", "pattern": "^(a+)+$"}}])
def test_a_pattern_that_never_ends_is_no_evidence(monkeypatch: pytest.MonkeyPatch, how: dict[str, object]) -> None:
    monkeypatch.setattr(quality_checks, "PATTERN_LIMIT_S", 0.2)
    hostile = "a" * 60 + "!"
    given = answers(answer("trap", hostile if "regex" in how else json.dumps(hostile), **how))
    with pytest.raises(NoEvidence, match="'trap' did not decide"):
        held(given, given)


@pytest.mark.parametrize(
    ("text", "declines"),
    [
        ("I'm sorry, but I can't help.", True),
        ("I cannot do that.", True),
        ("Paris. I cannot", False),
        ("Sorrow", False),
    ],
)
def test_refusals(text: str, declines: bool) -> None:
    assert is_refusal(answer("a", text)) is declines
    assert is_refusal(answer("a", text, refusal=True))


def test_figures_on_paper() -> None:
    base = answers(
        answer("a", "one two three four"),
        answer("b", "Paris", exact="Paris"),
        answer("c", '{"name":"x"}', json_schema=PERSON),
    )
    now = answers(
        answer("a", "one two five four", finish_reason="length"),
        answer("b", "", exact="Paris", outcome=Outcome.EMPTY, error_class=ErrorClass.EMPTY_RESPONSE),
        answer("c", '{"name":"x"}', json_schema=PERSON),
    )
    found = quality.figures(now, [base])
    assert found[of.EXACT.name] == pytest.approx(1 / 3)
    assert found[of.SIMILARITY.name] == pytest.approx((0.75 + 0 + 1) / 3)
    assert found[of.VALID_JSON.name] == 1
    assert found[of.AS_EXPECTED.name] == 0.5  # of b and c
    assert found[of.LENGTH.name] == pytest.approx((17 + 0 + 12) / (18 + 5 + 12))
    assert (found[of.TRUNCATED.name], found[of.EMPTY.name], found[of.REFUSED.name]) == pytest.approx((1 / 3, 1 / 3, 0))
    assert all(math.isnan(value) for value in quality.figures({}, [base]).values())


def test_the_likest_of_several_baseline_answers_counts() -> None:
    bases = [answers(answer("a", "red green")), answers(answer("a", "blue"))]
    assert quality.figures(answers(answer("a", "blue")), bases)[of.EXACT.name] == 1
    assert quality.of_baseline(bases)[of.EXACT.name] == 0  # its own runs do not agree


def held(base: quality.Answers, now: quality.Answers) -> gate.Gate:
    return gate.hold(baseline(run(answers=base)), run(answers=now), asked(quality_budgets=quality_budgets("")))


def test_wrong_answers_fail_whatever_the_speed() -> None:
    good = answers(*(answer(f"p{i}", f"answer number {i}", regex=str(i)) for i in range(10)))
    assert held(good, good).exit_code is Exit.PASS
    half = answers(
        *(
            one if i % 2 else answer(f"p{i}", "", regex=str(i), outcome=Outcome.EMPTY)
            for i, one in enumerate(good.values())
        )
    )
    found = held(good, half)
    assert found.exit_code is Exit.FAIL
    failed = {one.budget.name for one in found.judged if one.verdict is Verdict.FAIL}
    assert failed == {of.EMPTY.name, of.SIMILARITY.name, of.AS_EXPECTED.name, of.LENGTH.name}


def test_a_missing_quality_phase_is_missing_evidence() -> None:
    some = answers(answer("a", "x"))
    assert held(some, {}).exit_code is Exit.INVALID
    assert held({}, some).exit_code is Exit.INVALID
    assert held({}, {}).exit_code is Exit.PASS
    left_out = gate.hold(baseline(run(answers=some)), run(), asked(quality_budgets=quality_budgets("none")))
    assert left_out.exit_code is Exit.PASS
    assert any("left out on request" in note for note in left_out.notes)


def test_a_budget_that_somebody_wrote_must_judge() -> None:
    plain = answers(answer("a", "x"))
    assert held(plain, plain).exit_code is Exit.PASS  # no prompt asks for JSON: the default on it judges nothing
    wanted = asked(quality_budgets=quality_budgets("quality_valid_json:-1pp"))
    assert gate.hold(baseline(run(answers=plain)), run(answers=plain), wanted).exit_code is Exit.INVALID
