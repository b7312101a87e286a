"""The HTTP server: routes, keys, and the way of a chat request from its bytes to the engine."""

import asyncio
import contextlib
import dataclasses
import secrets
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from simulator import api, truth
from simulator.answers import LengthSettings, PlannedAnswer, plan_answer
from simulator.engine import Engine, EngineSettings, Sequence
from simulator.exchange import Exchange
from simulator.faults import Fault, FaultKind, FaultRule, bend, find
from simulator.metrics import Metrics
from simulator.runtime import QueueFull, Runtime
from simulator.tokens import apply_template, block_hashes, has_cjk
from simulator.truth import TruthLog, TruthRecord
from tokenswarm import __version__


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Everything that the command line decides."""

    engine: EngineSettings = dataclasses.field(default_factory=EngineSettings)
    lengths: LengthSettings = dataclasses.field(default_factory=LengthSettings)
    model: str = "simulated"
    api_key: str | None = None
    truth_log: Path | None = None
    fault_rules: tuple[FaultRule, ...] = ()
    keep_alive_s: int = 3600


class Simulator:
    """The application's state and its handlers."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.metrics = Metrics(settings.model)
        self.runtime = Runtime(Engine(settings.engine), self.metrics)
        self.log = TruthLog(settings.truth_log)
        self._started_at = int(time.time())

    def app(self) -> ASGIApp:
        routes = [
            Route("/v1/models", self.models),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/metrics", self.show_metrics),
            Route("/health", self.health),
            Route("/version", self.version),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        loop = asyncio.create_task(self.runtime.run())
        loop.add_done_callback(_report_crash)
        yield
        loop.cancel()
        self.log.close()

    async def models(self, request: Request) -> Response:
        if not self._may_enter(request):
            return _unauthorized()
        card = {
            "id": self.settings.model,
            "object": "model",
            "created": self._started_at,
            "owned_by": "simulator",
            "root": self.settings.model,
            "parent": None,
            "max_model_len": self.settings.engine.max_model_len,
        }
        return JSONResponse({"object": "list", "data": [card]})

    async def show_metrics(self, request: Request) -> Response:
        engine = self.runtime.engine
        page = self.metrics.render(
            running=len(engine.running), waiting=len(engine.waiting), kv_usage_ratio=engine.kv_usage_ratio
        )
        return PlainTextResponse(page, media_type="text/plain; version=0.0.4")

    async def health(self, request: Request) -> Response:
        return Response()

    async def version(self, request: Request) -> Response:
        return JSONResponse({"version": f"simulator-{__version__}"})

    async def chat(self, request: Request) -> ASGIApp:
        """Every chat request leaves one line in the truth log: here if it is turned away, else by its Exchange."""
        request_id = request.headers.get("x-request-id") or f"chatcmpl-{secrets.token_hex(8)}"
        record = TruthRecord(request_id=request_id, arrived_at=request.state.arrived_ns / 1e9)
        try:
            if not self._may_enter(request):
                record.http_status, record.outcome = 401, truth.REJECTED
                return self._turn_away(record, _unauthorized())
            return self._accept(await request.body(), record)
        except ClientDisconnect:
            record.outcome = truth.DISCONNECTED
            return self._turn_away(record, Response())
        except api.ApiError as error:
            record.http_status = error.status
            if record.outcome == truth.OK:
                record.outcome = truth.REJECTED
            headers = {} if error.retry_after_s is None else {"retry-after": str(error.retry_after_s)}
            return self._turn_away(record, JSONResponse(error.body, error.status, headers))

    def _accept(self, body: bytes, record: TruthRecord) -> Exchange:
        """Queue the request in `body`. Raises ApiError."""
        request = api.parse(body, self.settings.model)
        record.streamed = bool(request.stream)
        faults = request.faults + [rule.fault for rule in self.settings.fault_rules if rule.hits()]
        if faults:
            record.faults = [fault.kind for fault in faults]
            record.outcome = faults[0].kind
        if status := find(faults, FaultKind.STATUS):
            raise api.fault_error(status.code, status.retry_after_s)
        sequence, answer = self._plan(request, record, faults)
        try:
            job = self.runtime.submit(sequence, answer.finish_reason)
        except QueueFull:
            raise api.busy() from None
        options = request.stream_options or api.StreamOptions()
        return Exchange(self.runtime, self.log, record, job, answer, faults, self.settings.model, options)

    def _plan(
        self, request: api.ChatRequest, record: TruthRecord, faults: list[Fault]
    ) -> tuple[Sequence, PlannedAnswer]:
        texts = request.texts()
        prompt = apply_template(texts)
        engine = self.settings.engine
        record.prompt_tokens = len(prompt)
        record.max_tokens = api.output_limit(request, len(prompt), engine.max_model_len)
        answer = plan_answer(
            f"{engine.seed}:{request.seed}:{texts}",
            self.settings.lengths,
            max_tokens=record.max_tokens,
            min_tokens=request.min_tokens,
            ignore_eos=request.ignore_eos,
            cjk=has_cjk(texts[-1][1]),
        )
        answer = bend(answer, faults)
        sequence = Sequence(record.request_id, len(prompt), len(answer.texts))
        if engine.prefix_cache:
            sequence.hashes = block_hashes([*prompt, *answer.tokens], engine.block_tokens)
        return sequence, answer

    def _may_enter(self, request: Request) -> bool:
        key = self.settings.api_key
        if key is None:
            return True
        given = request.headers.get("authorization", "")
        return secrets.compare_digest(given.encode(), f"Bearer {key}".encode())

    def _turn_away(self, record: TruthRecord, response: Response) -> Response:
        response.headers["x-request-id"] = record.request_id
        record.ended_at = time.time_ns() / 1e9
        self.log.write(record)
        return response


def _unauthorized() -> Response:
    return JSONResponse({"error": "Unauthorized"}, 401)


def _report_crash(task: asyncio.Task[None]) -> None:
    """A scheduler that died would leave every request waiting: say so, and stop."""
    if not task.cancelled() and (error := task.exception()) is not None:
        raise SystemExit(f"simulator: the engine loop failed: {error!r}") from error


class _Protocol(HttpToolsProtocol):
    """Adds to the scope's state when the request began to arrive, and the connection under it."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        state = self.scope["state"]
        state["arrived_ns"] = time.time_ns()
        state["transport"] = self.transport


class _Server(uvicorn.Server):
    """Says where it listens once it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host, port = (sockets or [])[0].getsockname()[:2]
        print(f"simulator listening on http://{host}:{port}/v1", flush=True)


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to `host` and `port` (0: any free one). Raises OSError."""
    # With the protocol named, so that asyncio sees TCP and turns Nagle's delay off.
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def serve(settings: ServerSettings, sock: socket.socket) -> None:
    """Serve on `sock` until SIGINT or SIGTERM."""
    config = uvicorn.Config(
        Simulator(settings).app(),
        http=_Protocol,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=1,
        backlog=2048,
    )
    _Server(config).run(sockets=[sock])
