"""The whole way, from rows to findings, on runs of the simulator's engine whose bottleneck was built in."""

import dataclasses
import itertools
from pathlib import Path

import pytest
from virtual_run import virtual_run

from analysis.capacity import capacity
from analysis.finding import Finding, FindingKind
from analysis.findings import findings
from analysis.knee import knee
from analysis.phase import Binding, Phase, binding
from analysis.pipeline import Analysis, analyse
from simulator.engine import EngineSettings

QUEUE = EngineSettings(max_num_seqs=8, base_s=0.02, sequence_s=0, context_token_s=0, prefill_token_s=0)
LOADS = (1, 2, 4, 8, 16, 32)


def binds(analysis: Analysis) -> tuple[int, int, Binding]:
    found = knee(analysis.summary)
    assert found is not None
    return found.before.users, found.after.users, binding(analysis.summary, found)


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """Eight places, 20 ms a token whatever the batch: eight users are carried, and not one more."""
    return analyse(virtual_run(tmp_path_factory.mktemp("queue"), QUEUE, LOADS, slos={"ttft_p95": 0.1}))


def test_the_engine_in_virtual_time_gives_what_was_built_in(queue: Analysis) -> None:
    assert queue.summary.verdict.isin(["valid", "suspect"]).all(), queue.summary.reasons.tolist()
    assert queue.summary.output_tokens_per_s.tolist() == pytest.approx([50, 100, 200, 400, 400, 400], rel=0.02)
    assert queue.summary.tpot_p50_s.tolist() == pytest.approx([0.02] * 6)


def test_places_in_the_batch_bound_it(queue: Analysis) -> None:
    before, after, found = binds(queue)
    assert (before, after, found.phase) == (8, 16, Phase.QUEUE)
    assert found.decoding == pytest.approx(8, rel=0.05)
    answer = capacity(queue.summary, {"ttft_p95": 0.1})
    assert answer.largest is not None
    assert answer.first_missed is not None
    assert (answer.largest.users, answer.first_missed.users) == (8, 16)


def test_findings_of_a_queue(queue: Analysis) -> None:
    found = findings(queue, count=100)
    texts = {kind: " ".join(one.text for one in found if one.kind is kind) for kind in FindingKind}
    assert "8 users (8 in flight) keep to ttft_p95 ≤ 100 ms" in texts[FindingKind.CAPACITY]
    assert "16 users do not" in texts[FindingKind.CAPACITY]
    assert "bends between 8 and 16 users" in texts[FindingKind.KNEE]
    assert "queue for a place in the batch: about 8 were" in texts[FindingKind.PHASE]
    assert "100 users need 18 replicas" in texts[FindingKind.REPLICAS]  # 100 / 5.6
    assert "holds at 1, 2, 4, 8, 16 and 32 users" in texts[FindingKind.LAW]
    order = [list(FindingKind).index(one.kind) for one in found]
    assert order == sorted(order)
    assert found == findings(queue, count=100)


def test_each_sequence_slower_is_decoding(tmp_path: Path) -> None:
    settings = EngineSettings(
        max_num_seqs=64, base_s=0.01, sequence_s=0.01, context_token_s=0, prefill_token_s=0, max_num_batched_tokens=4096
    )
    _, _, found = binds(analyse(virtual_run(tmp_path, settings, (1, 4, 8, 16), step_time_s=40)))
    assert (found.phase, found.first_token_share < 0.2) == (Phase.DECODE, True)


def test_long_prompts_and_short_answers_are_not_called_decoding(tmp_path: Path) -> None:
    """Prompts of 400 tokens at 1 ms each, one a time; two tokens of answer: prefill is all the work there is."""
    settings = EngineSettings(
        max_num_seqs=64,
        base_s=0.001,
        sequence_s=0,
        context_token_s=0,
        prefill_token_s=0.001,
        max_num_batched_tokens=401,
    )
    folder = virtual_run(tmp_path, settings, (1, 4, 8), prompt_tokens=400, output_tokens=(2, 3))
    _, _, found = binds(analyse(folder))
    assert found.phase in (Phase.PREFILL, Phase.BOTH)
    assert found.prefill_busy > 0.7
    assert found.first_token_share > 0.5


@pytest.mark.parametrize(("kv_blocks", "stalled"), [(128, True), (1024, False)])
def test_a_full_kv_cache_leaves_its_sign(tmp_path: Path, kv_blocks: int, stalled: bool) -> None:
    """24 users whose contexts want 2.5 times the small cache: the latest are preempted and compute their prompts again."""
    settings = EngineSettings(
        max_num_seqs=64,
        base_s=0.02,
        sequence_s=0,
        context_token_s=0,
        prefill_token_s=0.001,
        kv_blocks=kv_blocks,
        max_model_len=1024,
        max_num_batched_tokens=1024,
    )
    analysis = analyse(virtual_run(tmp_path, settings, (1, 4, 24), output_tokens=(100, 200), step_time_s=80))
    found = knee(analysis.summary)
    assert (found is not None) is stalled  # the large cache carries them all
    if found is not None:
        assert binding(analysis.summary, found).stalled
        texts = [one.text for one in findings(analysis, {}) if one.kind is FindingKind.PHASE]
        assert "as when a full KV cache preempts them" in texts[-1]


def test_the_same_run_gives_the_same_words(queue: Analysis, tmp_path: Path) -> None:
    def told(analysis: Analysis) -> list[Finding]:
        return findings(analysis, slos={"ttft_p95": 0.1}, count=50)

    shuffled = queue.summary.sample(frac=1, random_state=3)
    again = dataclasses.replace(queue, summary=shuffled)
    for one, other in itertools.zip_longest(told(queue), told(again)):
        assert (one.kind, one.text) == (other.kind, other.text)
