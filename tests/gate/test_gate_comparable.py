"""Same thing or not: by name, and unknown is not equal."""

import pytest

from analysis import gate
from analysis.comparable import compare
from analysis.gate import Exit
from analysis.gate_errors import GateUsage
from tests.gate.kept_on_paper import answer, answers, asked, baseline, info, run, step


def conditions(**changed: object) -> dict[str, object]:
    return {"conditions": info()["conditions"] | changed}


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("model", conditions(model="m2")),
        ("engine_version", conditions(engine_version="2")),
        ("gpu", conditions(gpu="B")),
        ("prompt_tokens", conditions(prompt_tokens=65)),
        ("definitions_version", {"definitions_version": 2}),
        ("seed", {"seed": 2}),
        ("cores", {"cores": 4}),
        ("workers", {"workers": 2}),
        ("client_version", {"versions": {"tokenswarm": "0.2.0"}}),
        ("steps", {"scenario": info()["scenario"] | {"steps": [20, 50]}}),
        ("step_time_s", {"scenario": info()["scenario"] | {"step_time_s": 30.0}}),
        ("fresh_connections", {"options": {"fresh_connections": True}}),
    ],
)
def test_what_differs_refuses_by_its_name_unless_allowed(name: str, about: dict[str, object]) -> None:
    other = run(**about)
    assert [one.name for one in compare(other, [run()]).refused] == [name]
    found = compare(other, [run()], [name])
    assert (found.refused, [one.name for one in found.allowed]) == ((), [name])
    assert gate.hold(baseline(), other, asked()).exit_code is Exit.INVALID
    assert gate.hold(baseline(), other, asked(allow=[name])).exit_code is Exit.PASS


def test_unknown_is_not_equal_but_only_warns() -> None:
    for ours, theirs in ((None, "A"), ("A", None), (None, None)):
        found = compare(run(**conditions(gpu=ours)), [run(**conditions(gpu=theirs))])
        assert (found.refused, found.unknown) == ((), ("gpu",))
    named_by_one = compare(run(**conditions(tensor_parallel="4")), [run()])
    assert named_by_one.unknown == ("tensor_parallel",)


def test_host_and_libraries_are_noted() -> None:
    found = compare(run(host="other", versions={"tokenswarm": "0.1.0", "python": "3.12"}), [run()])
    assert found.refused == ()
    assert {one.name for one in found.noted} == {"host", "python"}


def test_every_run_of_the_baseline_is_compared() -> None:
    assert [one.name for one in compare(run(), [run(), run(seed=7)]).refused] == ["seed"]


def test_an_allowed_name_that_nothing_bears_is_a_mistake() -> None:
    with pytest.raises(GateUsage, match="engine_verison"):
        gate.hold(baseline(), run(), asked(allow=["engine_verison"]))


def test_steps_can_be_chosen() -> None:
    base, now = run(step(users=1), step(users=20)), run(step(users=20), scenario=info()["scenario"] | {"steps": [20]})
    assert gate.hold(baseline(base), now, asked(users=(20,))).exit_code is Exit.PASS
    with pytest.raises(GateUsage, match="--at 7"):
        gate.hold(baseline(base), now, asked(users=(7,)))


def test_a_run_that_did_not_come_to_its_end_is_refused() -> None:
    for state in ("running", "failed"):
        assert gate.hold(baseline(), run(state=state), asked()).exit_code is Exit.INVALID


def test_other_prompts_are_another_measurement() -> None:
    mine, theirs = answers(answer("a", "x")), answers(answer("a", "x"), answer("b", "y"))
    assert [one.name for one in compare(run(answers=mine), [run(answers=theirs)]).refused] == ["quality_prompts"]
    assert compare(run(answers=mine), [run(answers=mine)]).refused == ()
