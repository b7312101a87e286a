"""The scheduler: which request gets a token in which iteration, and how long the iteration takes.

Pure: no clock, no sockets, no asyncio. One `step()` is one iteration of a continuous-batching engine as vLLM runs it:
running requests first, in order of arrival, then waiting ones (first come, first served), all out of one token budget
that prefill (in chunks) and decode share. When the KV cache is full, the latest arrival is preempted: it goes back to
the head of the queue and computes everything again.
"""

import dataclasses
import random
from collections import deque

from simulator.kv import Block, BlockHash, KvCache


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Limits and speed of the engine. Raises ValueError where they contradict each other."""

    max_num_seqs: int = 24
    max_num_batched_tokens: int = 512
    kv_blocks: int = 1024
    block_tokens: int = 16
    max_model_len: int = 4096
    max_queue: int | None = None
    prefix_cache: bool = False
    base_s: float = 0.018
    prefill_token_s: float = 30e-6
    sequence_s: float = 0.5e-3
    context_token_s: float = 0.2e-6
    slowdown: float = 1.0  # on everything but the prefill part
    jitter: float = 0.0  # each duration is multiplied by a draw from 1 ± jitter
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "kv_blocks", "block_tokens", "max_model_len"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("base_s", "prefill_token_s", "sequence_s", "context_token_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if self.slowdown <= 0:
            raise ValueError(f"slowdown must be above 0, not {self.slowdown}")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be in [0, 1), not {self.jitter}")
        if self.max_queue is not None and self.max_queue < 1:
            raise ValueError(f"max_queue must be at least 1, not {self.max_queue}")
        if self.kv_blocks * self.block_tokens < self.max_model_len:
            raise ValueError(
                f"the KV cache holds {self.kv_blocks * self.block_tokens} tokens, fewer than max_model_len "
                f"{self.max_model_len}: a single long request would never finish"
            )


@dataclasses.dataclass(slots=True, eq=False)
class Sequence:
    """One request inside the engine. It generates exactly `output_tokens` tokens, at least 1.

    `hashes`: of the full blocks of prompt and output, when prefixes are shared.
    """

    request_id: str
    prompt_tokens: int
    output_tokens: int
    hashes: list[BlockHash] = dataclasses.field(default_factory=list)
    generated: int = 0
    computed: int = 0  # tokens whose KV is in the cache
    cached_tokens: int | None = None  # found in the prefix cache at first admission; None before it
    preemptions: int = 0
    blocks: list[Block] = dataclasses.field(default_factory=list)

    @property
    def known(self) -> int:
        """Tokens to have in the KV cache before the next one can be generated."""
        return self.prompt_tokens + self.generated

    @property
    def finished(self) -> bool:
        return self.generated == self.output_tokens


@dataclasses.dataclass(frozen=True, slots=True)
class Iteration:
    """What one step did. Each sequence of `generated` got one token, available when `duration_s` has passed."""

    generated: list[Sequence]
    admitted: list[Sequence]
    preempted: list[Sequence]
    duration_s: float
    prefill_tokens: int
    decode_tokens: int


class Engine:
    """Holds the sequences; advances them by `step()`."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.kv = KvCache(settings.kv_blocks, settings.block_tokens)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # in order of arrival; every one arrived before every waiting one
        self._jitter = random.Random(f"duration:{settings.seed}")

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    @property
    def queue_full(self) -> bool:
        return self.settings.max_queue is not None and len(self.waiting) >= self.settings.max_queue

    @property
    def kv_usage_ratio(self) -> float:
        return self.kv.used_blocks / self.kv.capacity_blocks

    def submit(self, sequence: Sequence) -> None:
        """Queue `sequence`. Raises ValueError when it is longer than the context."""
        if sequence.prompt_tokens < 1 or sequence.output_tokens < 1:
            raise ValueError("a sequence needs at least one prompt token and one output token")
        if sequence.prompt_tokens + sequence.output_tokens > self.settings.max_model_len:
            raise ValueError("prompt and output together are longer than max_model_len")
        self.waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Drop `sequence` and free what it holds; without effect when it has finished."""
        if sequence in self.running:
            self.running.remove(sequence)
            self.kv.release(sequence.blocks)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def step(self) -> Iteration:
        """Run one iteration. Only with `has_work`: then at least one sequence makes progress."""
        scheduled: dict[Sequence, int] = {}  # tokens to compute in this iteration
        preempted: list[Sequence] = []
        budget = self._schedule_running(scheduled, preempted)
        admitted = [] if preempted else self._admit(scheduled, budget)
        prefill = sum(count for sequence, count in scheduled.items() if self._is_prefill(sequence, count))
        duration_s = self._duration_s(scheduled, prefill)
        generated = self._compute(scheduled)
        decode = sum(scheduled.values()) - prefill
        return Iteration(generated, admitted, preempted, duration_s, prefill, decode)

    def _schedule_running(self, scheduled: dict[Sequence, int], preempted: list[Sequence]) -> int:
        """Give every running sequence its tokens; returns the budget that is left."""
        budget = self.settings.max_num_batched_tokens
        for sequence in list(self.running):
            if budget == 0 or sequence in preempted:  # those behind a preempted one are preempted too
                break
            count = min(sequence.known - sequence.computed, budget)
            new_blocks = self.kv.blocks_for(sequence.computed + count) - len(sequence.blocks)
            while new_blocks > self.kv.available_blocks and sequence not in preempted:
                preempted.append(self._preempt_latest())
            if sequence in preempted:
                break
            sequence.blocks += self.kv.allocate(max(0, new_blocks))
            scheduled[sequence] = count
            budget -= count
        return budget

    def _preempt_latest(self) -> Sequence:
        latest = self.running.pop()
        self.kv.release(latest.blocks)
        latest.computed = 0
        latest.preemptions += 1
        self.waiting.appendleft(latest)
        return latest

    def _admit(self, scheduled: dict[Sequence, int], budget: int) -> list[Sequence]:
        admitted: list[Sequence] = []
        while self.waiting and budget and len(self.running) < self.settings.max_num_seqs:
            sequence = self.waiting[0]
            # The last token is always computed anew: its result is the next token.
            matched = self.kv.match(sequence.hashes, sequence.known - 1)
            cached = len(matched) * self.settings.block_tokens
            count = min(sequence.known - cached, budget)
            new_blocks = self.kv.blocks_for(cached + count) - len(matched)
            if not self.kv.room_for(new_blocks, matched):
                break
            self.kv.take(matched)
            sequence.blocks = matched + self.kv.allocate(new_blocks)
            sequence.computed = cached
            if sequence.cached_tokens is None:
                sequence.cached_tokens = cached
            self.running.append(self.waiting.popleft())
            admitted.append(sequence)
            scheduled[sequence] = count
            budget -= count
        return admitted

    @staticmethod
    def _is_prefill(sequence: Sequence, count: int) -> bool:
        """A decode computes exactly the token that was generated last; everything else is prefill."""
        return count > 1 or sequence.generated == 0 or sequence.computed + count < sequence.known

    def _duration_s(self, scheduled: dict[Sequence, int], prefill: int) -> float:
        settings = self.settings
        context = sum(sequence.computed + count for sequence, count in scheduled.items())
        decode_s = settings.base_s + len(scheduled) * settings.sequence_s + context * settings.context_token_s
        duration_s = decode_s * settings.slowdown + prefill * settings.prefill_token_s
        return duration_s * self._jitter.uniform(1 - settings.jitter, 1 + settings.jitter)

    def _compute(self, scheduled: dict[Sequence, int]) -> list[Sequence]:
        generated: list[Sequence] = []
        for sequence, count in scheduled.items():
            full_before = sequence.computed // self.settings.block_tokens
            sequence.computed += count
            if sequence.hashes:
                self.kv.publish(sequence.blocks, sequence.hashes, full_before, sequence.computed)
            if sequence.computed == sequence.known:
                sequence.generated += 1
                generated.append(sequence)
                if sequence.finished:
                    self.running.remove(sequence)
                    self.kv.release(sequence.blocks)
        return generated
