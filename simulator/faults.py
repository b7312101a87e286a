"""Faults on order: per request by the extra body field `fault`, or for a share of all requests by the option --fault.

The field holds one fault or a list of them: `{"kind": "stall", "seconds": 5, "after": 10}`. The option says the same as
`stall:seconds=5,after=10,every=20`; `share=0.1` or `every=20` choose the requests, without either it is all of them.
"""

import enum
import itertools
import random
from typing import Annotated

import msgspec

from simulator.answers import PlannedAnswer


class FaultKind(enum.StrEnum):
    """What goes wrong. In mid stream: before output chunk number `after` (counted from 0), or the last one."""

    STATUS = "status"  # `code` instead of an answer; `retry_after_s` becomes the header
    ERROR = "error"  # an error object with `code` in the stream, then [DONE]
    DISCONNECT = "disconnect"  # the connection closes inside the chunked body
    RESET = "reset"  # the same by a TCP reset
    TRUNCATE = "truncate"  # the body ends properly, but without finish_reason and [DONE]
    STALL = "stall"  # nothing for `seconds`, then all that was held back at once
    ROLE_EARLY = "role_early"  # the role chunk comes before the prefill
    MULTI_TOKEN = "multi_token"  # `tokens` tokens in each chunk
    NO_USAGE = "no_usage"
    NO_DONE = "no_done"
    EARLY_STOP = "early_stop"  # finish_reason stop when `after` tokens are out, whatever was asked for
    EMPTY = "empty"  # the answer is over at once: no text at all
    ABORT = "abort"  # finish_reason abort when `after` tokens are out


CUTS = frozenset({FaultKind.ERROR, FaultKind.DISCONNECT, FaultKind.RESET, FaultKind.TRUNCATE})


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One fault with its parameters; each kind reads those it needs."""

    kind: FaultKind
    after: Annotated[int, msgspec.Meta(ge=0)] = 3
    code: Annotated[int, msgspec.Meta(ge=400, le=599)] = 500
    retry_after_s: Annotated[int, msgspec.Meta(ge=0)] | None = None
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    tokens: Annotated[int, msgspec.Meta(ge=1)] = 4


def find(faults: list[Fault], *kinds: FaultKind) -> Fault | None:
    """The first of `faults` that is of one of `kinds`."""
    return next((fault for fault in faults if fault.kind in kinds), None)


def bend(answer: PlannedAnswer, faults: list[Fault]) -> PlannedAnswer:
    """`answer` as the faults that change what is generated leave it."""
    if find(faults, FaultKind.EMPTY):
        return PlannedAnswer([""], "stop")
    if early := find(faults, FaultKind.EARLY_STOP):
        kept = min(early.after, len(answer.texts) - 1)
        return PlannedAnswer([*answer.texts[:kept], ""], "stop")
    if abort := find(faults, FaultKind.ABORT):
        return PlannedAnswer(answer.texts[: abort.after] or [""], "abort")
    return answer


class FaultRule:
    """Deals one fault to a share of the requests, or to every n-th; the same for a seed and an order of requests."""

    def __init__(self, fault: Fault, share: float, every: int, seed: int) -> None:
        self.fault = fault
        self._share = share
        self._every = every
        self._draw = random.Random(f"fault:{seed}:{fault}")
        self._requests = itertools.count(1)

    def hits(self) -> bool:
        """Whether the next request has it."""
        return next(self._requests) % self._every == 0 and self._draw.random() < self._share


def parse_rule(text: str, seed: int) -> FaultRule:
    """The rule that an option's value says: `KIND`, `KIND:0.1` (a share) or `KIND:name=value,…`.

    Raises ValueError with a sentence for the person who typed it.
    """
    kind, _, rest = text.partition(":")
    fields: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        name, equals, value = part.partition("=")
        fields[name if equals else "share"] = value if equals else name
    try:
        share, every = float(fields.pop("share", "1")), int(fields.pop("every", "1"))
        fault = msgspec.convert({"kind": kind, **fields}, Fault, strict=False)
    except (ValueError, msgspec.ValidationError) as error:
        kinds = ", ".join(FaultKind)
        raise ValueError(f"fault {text!r}: {error}. Expected KIND[:name=value,…] with KIND one of {kinds}") from None
    if not 0 < share <= 1 or every < 1:
        raise ValueError(f"fault {text!r}: share must be in (0, 1] and every at least 1")
    return FaultRule(fault, share, every, seed)
