"""The scheduler, by tables and by properties: no clock and no socket takes part."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import Engine, EngineSettings, Iteration, Sequence

SMALL = EngineSettings(
    max_num_seqs=2, max_num_batched_tokens=8, kv_blocks=16, block_tokens=4, max_model_len=64, base_s=1.0
)


def engine(**overrides: object) -> Engine:
    return Engine(dataclasses.replace(SMALL, **overrides))  # type: ignore[arg-type]


def run(machine: Engine, *sequences: Sequence) -> list[Iteration]:
    for sequence in sequences:
        machine.submit(sequence)
    iterations = []
    while machine.has_work:
        iterations.append(machine.step())
        assert len(iterations) < 10_000
    return iterations


def names(sequences: list[Sequence]) -> str:
    return " ".join(sequence.request_id for sequence in sequences)


def test_first_come_first_served_within_max_num_seqs() -> None:
    iterations = run(engine(), Sequence("a", 4, 2), Sequence("b", 4, 3), Sequence("c", 1, 2))
    assert [names(iteration.generated) for iteration in iterations] == ["a b", "a b", "b c", "c"]
    assert [names(iteration.admitted) for iteration in iterations] == ["a b", "", "c", ""]


def test_a_long_prompt_is_prefilled_in_chunks_of_the_budget() -> None:
    iterations = run(engine(), Sequence("a", 20, 2))
    assert [(i.prefill_tokens, i.decode_tokens, names(i.generated)) for i in iterations] == [
        (8, 0, ""),
        (8, 0, ""),
        (4, 0, "a"),
        (0, 1, "a"),
    ]


def test_decode_and_prefill_share_the_budget_and_decode_comes_first() -> None:
    iterations = run(engine(), Sequence("a", 2, 4), Sequence("b", 19, 1))
    assert [(i.prefill_tokens, i.decode_tokens, names(i.generated)) for i in iterations] == [
        (8, 0, "a"),  # 2 of a, 6 of b
        (7, 1, "a"),
        (6, 1, "a b"),
        (0, 1, "a"),
    ]


def test_the_latest_arrival_is_preempted_and_keeps_its_tokens() -> None:
    machine = engine(kv_blocks=4, max_model_len=16, max_num_batched_tokens=64)
    first, second = Sequence("a", 7, 6), Sequence("b", 7, 6)
    iterations = run(machine, first, second)
    assert [names(i.generated) for i in iterations] == ["a b", "a b", "a", "a", "a", "a", "b", "b", "b", "b"]
    assert [names(i.preempted) for i in iterations] == ["", "", "b", *[""] * 7]
    assert iterations[6].prefill_tokens == 7 + 2  # the prompt and what had been generated are computed again
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert (first.generated, second.generated) == (6, 6)


def test_a_preempted_sequence_goes_to_the_head_of_the_queue() -> None:
    machine = engine(kv_blocks=4, max_model_len=16, max_num_batched_tokens=64)
    for name in "abc":
        machine.submit(Sequence(name, 7, 6))
    for _ in range(3):
        machine.step()
    assert names(machine.running) == "a"
    assert names(list(machine.waiting)) == "b c"


def test_duration_is_base_and_prefill_and_sequences_and_context() -> None:
    machine = engine(base_s=1.0, prefill_token_s=0.1, sequence_s=0.01, context_token_s=0.001)
    prefill, decode = run(machine, Sequence("a", 3, 2), Sequence("b", 5, 2))
    assert prefill.duration_s == pytest.approx(1.0 + 8 * 0.1 + 2 * 0.01 + 8 * 0.001)
    assert decode.duration_s == pytest.approx(1.0 + 2 * 0.01 + 10 * 0.001)


def test_slowdown_spares_the_prefill() -> None:
    machine = engine(base_s=1.0, prefill_token_s=0.1, sequence_s=0.0, context_token_s=0.0, slowdown=1.5)
    prefill, decode = run(machine, Sequence("a", 3, 2))
    assert (prefill.duration_s, decode.duration_s) == (pytest.approx(1.5 + 0.3), pytest.approx(1.5))


def test_jitter_repeats_with_the_seed_and_stays_in_its_bounds() -> None:
    def durations(seed: int) -> list[float]:
        return [i.duration_s for i in run(engine(jitter=0.2, seed=seed), Sequence("a", 1, 50))]

    plain = [i.duration_s for i in run(engine(), Sequence("a", 1, 50))]
    assert durations(1) == durations(1) != durations(2)
    assert len(set(durations(1))) == 50
    assert all(0.8 <= jittered / exact <= 1.2 for jittered, exact in zip(durations(1), plain, strict=True))


def test_the_queue_is_full_at_its_limit() -> None:
    machine = engine(max_queue=2)
    machine.submit(Sequence("a", 1, 1))
    assert not machine.queue_full
    machine.submit(Sequence("b", 1, 1))
    assert machine.queue_full


def test_abort_frees_at_once_whether_running_or_waiting() -> None:
    machine = engine()
    sequences = [Sequence(name, 4, 4) for name in "abc"]
    for sequence in sequences:
        machine.submit(sequence)
    machine.step()
    assert machine.kv.used_blocks == 2
    machine.abort(sequences[0])
    machine.abort(sequences[2])
    assert (names(machine.running), len(machine.waiting), machine.kv.used_blocks) == ("b", 0, 1)
    assert names(machine.step().generated) == "b"


def test_prefix_cache_skips_what_is_known_but_never_the_last_token() -> None:
    machine = engine(max_num_batched_tokens=64)
    hashes = [b"1", b"2", b"3"]
    cold, warm, other = (
        Sequence("cold", 12, 1, hashes),
        Sequence("warm", 12, 1, hashes),
        Sequence("other", 12, 1, [b"1", b"x"]),
    )
    prefills = [run(machine, sequence)[0].prefill_tokens for sequence in (cold, warm, other)]
    assert prefills == [12, 4, 8]
    assert [sequence.cached_tokens for sequence in (cold, warm, other)] == [0, 8, 4]
    assert machine.kv.used_blocks == 0


def test_shared_blocks_are_counted_once_and_the_oldest_idle_ones_are_overwritten() -> None:
    machine = engine(kv_blocks=4, max_model_len=16, max_num_batched_tokens=64)
    run(machine, Sequence("a", 12, 1, [b"1", b"2", b"3"]))
    machine.submit(Sequence("b", 9, 2, [b"1", b"2"]))
    machine.submit(Sequence("c", 9, 2, [b"1", b"2"]))
    machine.step()
    assert names(machine.running) == "b c"
    assert machine.kv.used_blocks == 4  # two shared, and one each
    while machine.has_work:
        machine.step()
    run(machine, Sequence("big", 15, 1, [b"7", b"8", b"9"]))
    late = Sequence("late", 12, 1, [b"1", b"2", b"3"])
    run(machine, late)
    assert late.cached_tokens == 0


def test_the_end_of_an_idle_prefix_is_overwritten_before_its_beginning() -> None:
    machine = engine(kv_blocks=4, max_model_len=16, max_num_batched_tokens=64)
    run(machine, Sequence("a", 12, 1, [b"1", b"2", b"3"]))
    run(machine, Sequence("b", 8, 1))  # one free block, and one of a's
    again = Sequence("again", 13, 1, [b"1", b"2", b"3"])
    run(machine, again)
    assert again.cached_tokens == 8


@pytest.mark.parametrize(
    "wrong",
    [{"max_num_seqs": 0}, {"kv_blocks": 15}, {"slowdown": 0.0}, {"jitter": 1.0}, {"max_queue": 0}, {"base_s": -1.0}],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must|holds"):
        engine(**wrong)


def test_a_sequence_beyond_the_context_is_refused() -> None:
    with pytest.raises(ValueError, match="max_model_len"):
        engine().submit(Sequence("a", 60, 5))


_SETTINGS = st.builds(
    EngineSettings,
    max_num_seqs=st.integers(1, 6),
    max_num_batched_tokens=st.integers(1, 24),
    kv_blocks=st.integers(10, 20),
    block_tokens=st.integers(4, 6),
    max_model_len=st.just(40),
    seed=st.integers(0, 9),
    jitter=st.just(0.1),
)
# (arrives before which step, prompt tokens, output tokens, steps until it is aborted or None, prefix family)
_ARRIVALS = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.integers(1, 25),
        st.integers(1, 15),
        st.none() | st.none() | st.integers(0, 9),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=14,
)


def _check_invariants(machine: Engine, iteration: Iteration) -> None:
    settings_ = machine.settings
    held = {id(block) for sequence in machine.running for block in sequence.blocks}
    assert machine.kv.used_blocks == len(held) <= settings_.kv_blocks
    assert len(machine.running) <= settings_.max_num_seqs
    assert 0 < iteration.prefill_tokens + iteration.decode_tokens <= settings_.max_num_batched_tokens
    assert iteration.duration_s > 0
    order = [int(sequence.request_id) for sequence in [*machine.running, *machine.waiting]]
    assert order == sorted(order)
    for sequence in machine.running:
        assert len(sequence.blocks) == machine.kv.blocks_for(sequence.computed)
    assert not any(sequence.blocks or sequence.computed for sequence in machine.waiting)
    assert not (iteration.preempted and iteration.admitted)  # what a preemption freed is for those that run


def _play(settings_: EngineSettings, arrivals: list[tuple], share: bool) -> list[object]:
    """Run a whole scene, checking at each step; returns what can be compared with another run."""
    machine = Engine(settings_)
    arrivals = sorted(arrivals, key=lambda arrival: arrival[0])
    sequences = [
        Sequence(str(i), p, o, [bytes([f, n]) for n in range((p + o) // settings_.block_tokens)] if share else [])
        for i, (_, p, o, _, f) in enumerate(arrivals)
    ]
    tokens = [0] * len(sequences)
    aborted: set[int] = set()
    story: list[object] = []
    step = 0
    while machine.has_work or step <= arrivals[-1][0]:
        for index, (at, _, _, abort_after, _) in enumerate(arrivals):
            if at == step:
                machine.submit(sequences[index])
            if abort_after is not None and at + abort_after == step:
                machine.abort(sequences[index])
                aborted.add(index)
        step += 1
        if not machine.has_work:
            continue
        iteration = machine.step()
        _check_invariants(machine, iteration)
        for sequence in iteration.generated:
            tokens[int(sequence.request_id)] += 1
        story.append((names(iteration.generated), names(iteration.preempted), iteration.duration_s))
        assert step < 20_000
    for index, sequence in enumerate(sequences):
        assert tokens[index] == sequence.generated
        assert index in aborted or sequence.generated == sequence.output_tokens
    assert machine.kv.used_blocks == 0
    return story


@settings(max_examples=150, deadline=None, database=None)
@given(_SETTINGS, _ARRIVALS, st.booleans())
def test_every_request_finishes_and_no_token_is_lost_or_made_twice(
    settings_: EngineSettings, arrivals: list[tuple], share: bool
) -> None:
    assert _play(settings_, arrivals, share) == _play(settings_, arrivals, share)


def test_the_properties_are_tried_on_scenes_with_preemption() -> None:
    tight = EngineSettings(max_num_seqs=4, max_num_batched_tokens=24, kv_blocks=10, block_tokens=4, max_model_len=40)
    story = _play(tight, [(0, 9, 15, None, 0)] * 6, share=False)
    assert sum(bool(preempted) for _, preempted, _ in story) >= 2  # type: ignore[misc]
