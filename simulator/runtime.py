"""Runs the engine in real time and hands each request its tokens when the iteration that made them is over."""

import asyncio

from simulator.engine import Engine, Iteration, Sequence
from simulator.metrics import Metrics


class QueueFull(Exception):
    """The engine takes no more requests now."""


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Job:
    """One request between the engine, which puts tokens in, and the one task that writes them out.

    `*_s` are instants of the event loop's clock.
    """

    def __init__(self, sequence: Sequence, finish_reason: str, arrived_s: float) -> None:
        self.sequence = sequence
        self.finish_reason = finish_reason  # of its last token
        self.generated = 0  # tokens handed over; the sequence itself may be one iteration ahead
        self.finished = False
        self.arrived_s = arrived_s
        self.admitted_s: float | None = None
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None
        self._gone = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, finished: bool) -> None:
        """One more token."""
        self.generated += 1
        self.finished = finished
        self._wake()

    def close(self) -> None:
        """Let the waiting task end with ClientGone."""
        self._gone = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait_for(self, tokens: int) -> None:
        """Return when `tokens` tokens are there, or all that there will be. Raises ClientGone."""
        while self.generated < tokens and not self.finished and not self._gone:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._gone:
            raise ClientGone


class Runtime:
    """The loop around the engine."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self.engine = engine
        self.metrics = metrics
        self._jobs: dict[Sequence, Job] = {}
        self._work = asyncio.Event()

    def submit(self, sequence: Sequence, finish_reason: str) -> Job:
        """Queue `sequence`. Raises QueueFull."""
        if self.engine.queue_full:
            self.metrics.queue_rejections += 1
            raise QueueFull
        self.engine.submit(sequence)
        job = self._jobs[sequence] = Job(sequence, finish_reason, asyncio.get_running_loop().time())
        self._work.set()
        return job

    def abort(self, job: Job) -> None:
        """Free what `job` holds, at once; a token that the running iteration makes for it is dropped."""
        self._jobs.pop(job.sequence, None)
        self.engine.abort(job.sequence)

    async def run(self) -> None:
        """Run iterations for ever; sleep while there is no work."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time()
        while True:
            if not self.engine.has_work:
                self._work.clear()
                await self._work.wait()
                ends_at = loop.time()
            began_s = loop.time()
            iteration = self.engine.step()
            self._note_admissions(iteration, began_s)
            # Iterations follow each other without gaps, however late this loop woke, unless it lost a whole one: the
            # pace is the settings', not the timer's.
            ends_at = max(ends_at, began_s - iteration.duration_s) + iteration.duration_s
            await asyncio.sleep(ends_at - loop.time())
            self._deliver(iteration, loop.time())
            await asyncio.sleep(0)  # the writers of all streams come first, in one turn of the loop

    def _note_admissions(self, iteration: Iteration, now_s: float) -> None:
        metrics = self.metrics
        metrics.preemptions += len(iteration.preempted)
        metrics.iteration.observe(iteration.prefill_tokens + iteration.decode_tokens)
        for sequence in iteration.admitted:
            job = self._jobs[sequence]
            if job.admitted_s is not None:
                continue  # it came back from a preemption
            job.admitted_s = now_s
            metrics.queue.observe(now_s - job.arrived_s)
            if self.engine.settings.prefix_cache:
                metrics.prefix_queries_tokens += sequence.prompt_tokens
                metrics.prefix_hits_tokens += sequence.cached_tokens or 0

    def _deliver(self, iteration: Iteration, now_s: float) -> None:
        for sequence in iteration.generated:
            job = self._jobs.get(sequence)
            if job is None:
                continue  # aborted during the iteration
            finished = sequence.finished
            self._observe_token(job, now_s)
            job.put(finished)
            if finished:
                del self._jobs[sequence]
                self._observe_finish(job)

    def _observe_token(self, job: Job, now_s: float) -> None:
        metrics = self.metrics
        metrics.generation_tokens += 1
        if job.last_token_s is None:
            metrics.prompt_tokens += job.sequence.prompt_tokens
            metrics.ttft.observe(now_s - job.arrived_s)
            job.first_token_s = now_s
        else:
            metrics.itl.observe(now_s - job.last_token_s)
        job.last_token_s = now_s

    def _observe_finish(self, job: Job) -> None:
        metrics = self.metrics
        metrics.success[job.finish_reason] += 1
        metrics.request_prompt.observe(job.sequence.prompt_tokens)
        metrics.request_generation.observe(job.generated)
        if job.admitted_s is None or job.first_token_s is None or job.last_token_s is None:
            raise RuntimeError("a job finished without having been admitted")
        metrics.e2e.observe(job.last_token_s - job.arrived_s)
        metrics.prefill.observe(job.first_token_s - job.admitted_s)
        metrics.decode.observe(job.last_token_s - job.first_token_s)
        if job.generated > 1:
            metrics.tpot.observe((job.last_token_s - job.first_token_s) / (job.generated - 1))
