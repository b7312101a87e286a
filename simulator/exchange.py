"""Writes one answer to its connection, streamed or whole, with the faults that were ordered for it."""

import asyncio
import socket
import struct
import time

import msgspec
from starlette.types import Receive, Scope, Send

from simulator import api, bodies, truth
from simulator.answers import PlannedAnswer
from simulator.faults import CUTS, Fault, FaultKind, find
from simulator.runtime import ClientGone, Job, Runtime
from simulator.truth import TruthLog, TruthRecord


class Exchange:
    """An ASGI response: the answer of one job. Its truth record is written when it ends, however it ends."""

    def __init__(
        self,
        runtime: Runtime,
        log: TruthLog,
        record: TruthRecord,
        job: Job,
        answer: PlannedAnswer,
        faults: list[Fault],
        model: str,
        options: api.StreamOptions,
    ) -> None:
        self._runtime = runtime
        self._log = log
        self._record = record
        self._job = job
        self._answer = answer
        self._faults = faults
        self._model = model
        self._options = options
        self._cut = find(faults, *CUTS)
        self._stall = find(faults, FaultKind.STALL)
        multi = find(faults, FaultKind.MULTI_TOKEN)
        self._chunk_size = multi.tokens if multi is not None else 1  # tokens
        self._watch: asyncio.Task[None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record, job = self._record, self._job
        watch = self._watch = asyncio.create_task(_until_gone(receive))
        watch.add_done_callback(lambda _: job.close())
        record.http_status = 200
        try:
            await (self._stream(send) if record.streamed else self._whole(send))
            if self._cut is not None and self._cut.kind in (FaultKind.DISCONNECT, FaultKind.RESET):
                _cut_off(scope, reset=self._cut.kind is FaultKind.RESET)
                await watch  # the server takes the answer for given up only when it has seen the connection end
        except ClientGone:
            record.outcome = truth.DISCONNECTED
        except asyncio.CancelledError:
            record.outcome = truth.SHUTDOWN
            raise
        finally:
            watch.cancel()
            self._runtime.abort(job)
            record.output_tokens = job.generated
            record.cached_tokens = job.sequence.cached_tokens
            record.preemptions = job.sequence.preemptions
            record.ended_at = time.time_ns() / 1e9
            self._log.write(record)

    async def _start(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        headers = [*headers, (b"x-request-id", self._record.request_id.encode("latin-1"))]
        await send({"type": "http.response.start", "status": self._record.http_status, "headers": headers})

    async def _stream(self, send: Send) -> None:
        """Headers at once, then chunks as their tokens come; returns after the last byte, or where a fault cuts."""
        record, job, texts = self._record, self._job, self._answer.texts
        encoder = bodies.ChunkEncoder(
            record.request_id, self._model, job.sequence.prompt_tokens, self._options.continuous_usage_stats
        )
        await self._start(send, [(b"content-type", b"text/event-stream; charset=utf-8")])
        role_early = find(self._faults, FaultKind.ROLE_EARLY) is not None
        if role_early:
            await self._write_role(send, encoder)
        sent = 0  # tokens
        while sent < len(texts):
            await job.wait_for(sent + self._chunk_size)
            upto = min(sent + self._chunk_size, job.generated)
            if sent == 0 and not role_early:
                await self._write_role(send, encoder)
            if await self._interfere(send, is_last=upto == len(texts)):
                return
            await self._write_chunk(send, encoder, sent, upto)
            sent = upto
        await self._end(send, encoder)

    async def _write_role(self, send: Send, encoder: bodies.ChunkEncoder) -> None:
        self._record.role_ns = time.time_ns()
        await _write(send, encoder.role())

    async def _write_chunk(self, send: Send, encoder: bodies.ChunkEncoder, sent: int, upto: int) -> None:
        record, texts = self._record, self._answer.texts[sent:upto]
        is_last = upto == len(self._answer.texts)
        if is_last:
            data = encoder.finish(texts, upto, self._answer.finish_reason)
        else:
            data = encoder.text(texts, upto)
        now_ns = time.time_ns()
        if texts != [""]:
            record.chunk_ns.append(now_ns)
            record.chunk_tokens.append(upto - sent)
        if is_last:
            record.finish_ns = now_ns
            record.finish_reason = self._answer.finish_reason
        await _write(send, data)

    async def _interfere(self, send: Send, is_last: bool) -> bool:
        """Stall here if a fault says so; whether the answer ends here by a fault."""
        written = len(self._record.chunk_ns)
        if self._stall is not None and (written == self._stall.after or is_last):
            seconds, self._stall = self._stall.seconds, None
            await self._wait(seconds)
        if self._cut is None or not (written == self._cut.after or is_last):
            return False
        if self._cut.kind is FaultKind.ERROR:
            await _write(send, bodies.event(api.fault_error(self._cut.code, None).body))
            await _write(send, bodies.DONE, more=False)
        elif self._cut.kind is FaultKind.TRUNCATE:
            await _write(send, b"", more=False)
        return True

    async def _wait(self, seconds: float) -> None:
        """Raises ClientGone at once when the client has had enough of waiting."""
        await asyncio.wait({self._watch}, timeout=seconds)
        if self._watch.done():
            raise ClientGone

    async def _end(self, send: Send, encoder: bodies.ChunkEncoder) -> None:
        if self._options.include_usage and find(self._faults, FaultKind.NO_USAGE) is None:
            await _write(send, encoder.usage(self._usage()))
        done = b"" if find(self._faults, FaultKind.NO_DONE) else bodies.DONE
        await _write(send, done, more=False)

    def _usage(self) -> dict[str, object]:
        cached = self._job.sequence.cached_tokens if self._runtime.engine.settings.prefix_cache else None
        return bodies.usage(self._job.sequence.prompt_tokens, self._job.generated, cached)

    async def _whole(self, send: Send) -> None:
        """One JSON body when all tokens are there. A cut leaves an error status, half the JSON, or no answer at all."""
        record, texts = self._record, self._answer.texts
        await self._job.wait_for(len(texts))
        if self._stall is not None:
            await self._wait(self._stall.seconds)
        if self._cut is not None and self._cut.kind in (FaultKind.DISCONNECT, FaultKind.RESET):
            record.http_status = None
            return
        if self._cut is not None and self._cut.kind is FaultKind.ERROR:
            error = api.fault_error(self._cut.code, None)
            record.http_status, body = error.status, msgspec.json.encode(error.body)
        else:
            counts = None if find(self._faults, FaultKind.NO_USAGE) else self._usage()
            record.finish_reason = self._answer.finish_reason
            body = bodies.completion(record.request_id, self._model, "".join(texts), record.finish_reason, counts)
            if self._cut is not None:
                body = body[: len(body) // 2]
        length = str(len(body)).encode()
        await self._start(send, [(b"content-type", b"application/json"), (b"content-length", length)])
        record.finish_ns = time.time_ns()
        await _write(send, body, more=False)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _write(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


def _cut_off(scope: Scope, *, reset: bool) -> None:
    """Close the connection under the answer: properly, or by a reset."""
    transport: asyncio.Transport = scope["state"]["transport"]
    if reset:
        raw: socket.socket = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    else:
        transport.close()
