"""ChatClient: one request, one record. One client serves all users of a process."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import openai

from tokenswarm.api_key import KeyCommand, KeyRing
from tokenswarm.asked import Asked
from tokenswarm.collector import Collector
from tokenswarm.digest import Digest, Reading
from tokenswarm.exchange import Exchange, Limits
from tokenswarm.masking import masked
from tokenswarm.pool import Pool
from tokenswarm.route import Route, Tls, route_to
from tokenswarm.target import Target
from tokenswarm.template import Message, Template, make_template, sdk
from tokenswarm.transport import KernelTransport
from tokenswarm.usage_error import UsageError
from tokenswarm.watch import Watch

UNAUTHORIZED = 401


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChatSettings:
    """Everything that shapes a request but its messages. Immutable for a run; carries no state of a process."""

    targets: tuple[Target, ...]  # shared out round robin
    model: str
    api_key: str | None = dataclasses.field(default=None, repr=False)
    key_command: KeyCommand | None = None  # prints the key anew; `api_key` is what it printed first
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    extra_body: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    max_tokens_field: str = "max_tokens"  # or max_completion_tokens, where the server wants that
    include_usage: bool = True  # whether the server takes stream_options
    limits: Limits = dataclasses.field(default_factory=Limits)
    tls: Tls = dataclasses.field(default_factory=Tls)
    fresh_connections: bool = False

    def parameters(self, max_tokens: int | None) -> dict[str, Any]:
        """The arguments of `chat.completions.create`, without messages."""
        given: dict[str, Any] = {"model": self.model, "stream": True}
        if self.include_usage:
            given["stream_options"] = {"include_usage": True}
        if max_tokens is not None:
            given[self.max_tokens_field] = max_tokens
        if self.extra_body:
            given["extra_body"] = dict(self.extra_body)
        return given


class ChatClient:
    """Sends chat completions and turns each into a record. Make it after the fork, in the process that uses it.

    `on_record` is called once per request, from the digest, with the `Reading` (record, answer, exchange);
    `on_death` when the digest dies of a mistake of ours: nothing is recorded from then on.
    `openai` is the SDK's own client over the same connections; the targets take turns there, too.
    """

    def __init__(
        self,
        settings: ChatSettings,
        *,
        worker: str,
        on_record: Callable[[Reading], None] = lambda _: None,
        on_death: Callable[[BaseException], None] = lambda _: None,
        id_prefix: str | None = None,
    ) -> None:
        self.settings = settings
        self.worker = worker
        self._routes: list[tuple[Target, Route]] = [
            (target, route_to(target, settings.tls)) for target in settings.targets
        ]
        self.secrets = secrets_of(settings)
        self._on_record = on_record
        self.collector = Collector()
        self.pool = Pool(self.collector, fresh=settings.fresh_connections)
        self.digest = Digest(self.collector, self._recorded, on_death)
        self.watch = Watch(self.pool, self.digest)
        self._turn = itertools.cycle(range(len(self._routes)))
        self._number = itertools.count(1)
        self._id_prefix = worker if id_prefix is None else id_prefix
        self._templates: dict[tuple[int, int | None], Template] = {}
        self._keys = KeyRing(settings.api_key, settings.key_command, self._use_key)

    def _recorded(self, reading: Reading) -> None:
        """Hand the record on, without secrets that the server echoed in its words."""
        record = reading.record
        if record is not None and record.detail and any(secret[:4] in record.detail for secret in self.secrets):
            reading.record = dataclasses.replace(record, detail=masked(record.detail, self.secrets))
        self._on_record(reading)

    def _use_key(self, key: str) -> None:
        """Requests begun from now on bear `key`; templates are built again, each when it is next needed."""
        self.settings = dataclasses.replace(self.settings, api_key=key)
        self.secrets.append(key)
        self._templates.clear()

    @property
    def openai(self) -> openai.OpenAI:
        """The SDK's client for the target whose turn it is: ask for it anew for each call, or keep it for one target."""
        target, route = self._routes[next(self._turn)]
        given = self.settings
        return sdk(target, KernelTransport(self.pool, route), given.api_key, given.headers, given.limits)

    @property
    def way(self) -> str | None:
        """The proxy on the way to the first target, for people."""
        proxy = self._routes[0][1].proxy
        return None if proxy is None else proxy.shown

    def prepare(self, max_tokens: int | None) -> None:
        """Build the templates before the load: the SDK's first call in a process costs up to half a second."""
        for number in range(len(self._routes)):
            self._template(number, max_tokens)

    def chat(
        self,
        messages: Sequence[Message],
        *,
        user: str,
        task: str = "chat",
        max_tokens: int | None = None,
        expected_prompt_tokens: int | None = None,
        prompt_words: int = 0,
        keep_text: bool = False,
        await_record: bool = False,
        **more: Any,
    ) -> Reading:
        """Send `messages` and wait for the end of the answer: not for its reading, unless `await_record`.

        The record is made whatever happens, also when this greenlet is stopped in mid answer (`cancelled`).
        `more`: conversation, turn, prompt_id, scheduled_at (see `Asked`).
        """
        self.digest.check()
        self.collector.read_if_due()
        asked = Asked(
            request_id=f"{self._id_prefix}-{next(self._number)}",
            worker=self.worker,
            user=user,
            task=task,
            max_tokens=max_tokens,
            ignore_eos=bool(self.settings.extra_body.get("ignore_eos")),
            expected_prompt_tokens=expected_prompt_tokens,
            prompt_words=prompt_words,
            **more,
        )
        number = next(self._turn)
        request = self._template(number, max_tokens).fill(messages, asked.request_id)
        reading = Reading(asked, Exchange(request, self.settings.limits), keep_text)
        self.digest.begin(reading)
        try:
            self.pool.carry(reading.exchange, self._routes[number][1])
        finally:
            self.digest.end(reading, urgent=await_record)
        if reading.exchange.status == UNAUTHORIZED:
            self._keys.renew()
        while await_record and not reading.recorded.wait(1.0):
            self.digest.check()
        return reading

    def _template(self, number: int, max_tokens: int | None) -> Template:
        key = (number, max_tokens)
        if key not in self._templates:
            target, route = self._routes[number]
            self._templates[key] = make_template(
                target,
                self.settings.parameters(max_tokens),
                route=route,
                api_key=self.settings.api_key,
                headers=self.settings.headers,
                fresh=self.settings.fresh_connections,
            )
        return self._templates[key]

    def close(self, limit_s: float | None = 60.0) -> None:
        """Record what has ended, then close everything. Raises what the digest died of, if it did."""
        self._keys.close()
        try:
            self.digest.drain(limit_s)
        finally:
            self.digest.close()
            self.watch.close()
            self.pool.close()
            self.collector.close()


def secrets_of(settings: ChatSettings) -> list[str]:
    """What must be shown nowhere: keys, header values, passwords of targets."""
    passwords = [target.userinfo.partition(":")[2] for target in settings.targets if target.userinfo]
    return [text for text in (settings.api_key, *settings.headers.values(), *passwords) if text]


OWN_FIELDS = {  # what the rows and figures rest on, and where to say it instead
    "messages": "prompts come from the workload",
    "stream": "every answer is streamed, or there would be nothing to measure",
    "model": "name it with MODEL=… (--model)",
    "max_tokens": "give the limit with MAX_TOKENS=… (--max-tokens)",
    "max_completion_tokens": "give the limit with MAX_TOKENS=… (--max-tokens), it is sent by the name that the server wants",
}


def parse_extra_body(text: str) -> dict[str, Any]:
    """`--extra-body`: a JSON object. Raises UsageError."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UsageError(f"--extra-body is no JSON ({error}); write it like '{{\"ignore_eos\": true}}'") from None
    if not isinstance(value, dict):
        raise UsageError("--extra-body must be a JSON object like '{\"ignore_eos\": true}'")
    for name in OWN_FIELDS.keys() & value.keys():
        raise UsageError(f"--extra-body cannot hold '{name}': {OWN_FIELDS[name]}")
    return value
