"""What binds where the curve bends: waiting for the first token, or decoding? From how the time of a request grew.

The time added to a typical request between two levels is split into the part before its first token (TTFT) and the part
after it (TPOT × tokens). What the server's memory did is not recorded; what it leaves in the answers is named as a sign.
"""

import dataclasses
import enum
import math
from typing import Any

import pandas as pd

from analysis import names
from analysis.evidence import levels, value
from analysis.health import Verdict
from analysis.knee import Knee
from tokenswarm.trust import CPU_OF_CORE

GREW = 0.10  # of a request's time: less is no growth to explain
DOMINATES = 0.80  # of the added time: the other part stays out of the answer
PREFILL_BUSY = 0.70  # of the time spent on prompts alone: prefill itself is the bottleneck, not a queue before it
FEW_USERS = 2  # at this load a TTFT is the prefill's own time
STALL = 8.0  # p99 / p50 of the gaps: one in a hundred is a pause, not a token
STALL_GREW = 2.0  # times the same ratio at the level before


class Phase(enum.StrEnum):
    QUEUE = "queue"  # before the first token, while prompts alone do not fill the time: a full batch
    PREFILL = "prefill"  # before the first token, and prompts alone fill the time
    FIRST_TOKEN = "queue or prefill"  # before the first token; no lone request was measured to tell which
    DECODE = "decode"
    BOTH = "both"
    CLIENT = "client"  # the client was busy: no phase of the server can be named
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Binding:
    """Times in s, of the level before the bend and of that after it."""

    phase: Phase
    ttft_s: tuple[float, float]
    tpot_s: tuple[float, float]
    statistic: str  # of ttft and tpot: p50, or the mean where that is withheld
    first_token_share: float  # of the time that was added to a request; NaN where nothing was
    prefill_busy: float  # share of the time that prompts alone would take at the level after; NaN: unknown
    decoding: float  # requests that were being decoded at once at the level after
    stalls: tuple[float, float]  # p99 / p50 of the gaps
    client_cpu: float  # of one core, the busiest process; NaN: not recorded
    verdict: Verdict  # of the level after

    @property
    def stalled(self) -> bool:
        return self.stalls[1] >= STALL and self.stalls[1] >= STALL_GREW * self.stalls[0]


def binding(summary: pd.DataFrame, knee: Knee, client_cpu: float = math.nan) -> Binding:
    """`client_cpu`: mean use of one core by the busiest client process, at the level after the bend."""
    rows = {int(row[names.TARGET_USERS]): row for row in levels(summary).to_dict("records")}
    before, after = rows[knee.before.users], rows[knee.after.users]
    statistic = "p50" if _known(before, after, "p50") else names.MEAN
    ttft_s, tpot_s = (
        (value(before, names.stat(metric, statistic)), value(after, names.stat(metric, statistic)))
        for metric in (names.TTFT, names.TPOT)
    )
    share = _first_token_share(before, ttft_s, tpot_s)
    lone = rows[min(rows)]
    busy = math.nan
    if min(rows) <= FEW_USERS:
        busy = value(after, names.REQUESTS_PER_S) * value(lone, names.stat(names.TTFT, statistic))
    found = Binding(
        phase=Phase.UNKNOWN,
        ttft_s=ttft_s,
        tpot_s=tpot_s,
        statistic=statistic,
        first_token_share=share,
        prefill_busy=busy,
        decoding=value(after, names.OUTPUT_TOKENS_PER_S) * tpot_s[1],
        stalls=(_stall(before), _stall(after)),
        client_cpu=client_cpu,
        verdict=Verdict(after[names.VERDICT]),
    )
    return dataclasses.replace(found, phase=_phase(found))


def _known(before: dict[Any, Any], after: dict[Any, Any], statistic: str) -> bool:
    cells = [
        value(row, names.stat(metric, statistic)) for row in (before, after) for metric in (names.TTFT, names.TPOT)
    ]
    return not any(map(math.isnan, cells))


def _first_token_share(before: dict[Any, Any], ttft_s: tuple[float, float], tpot_s: tuple[float, float]) -> float:
    """NaN where a figure is withheld, or where a request took hardly longer."""
    completed = value(before, names.REQUESTS_PER_S)
    tokens = value(before, names.OUTPUT_TOKENS_PER_S) / completed if completed > 0 else math.nan
    gaps = max(tokens - 1, 0.0) if not math.isnan(tokens) else math.nan
    first, decoding = max(ttft_s[1] - ttft_s[0], 0.0), max(tpot_s[1] - tpot_s[0], 0.0) * gaps
    added = first + decoding
    return first / added if added > GREW * (ttft_s[0] + tpot_s[0] * gaps) else math.nan


def _stall(row: dict[Any, Any]) -> float:
    usual = value(row, names.stat(names.ITL, "p50"))
    return value(row, names.stat(names.ITL, "p99")) / usual if usual > 0 else math.nan


def _phase(found: Binding) -> Phase:
    share = found.first_token_share
    if found.client_cpu > CPU_OF_CORE[0]:
        return Phase.CLIENT
    if math.isnan(share):
        return Phase.UNKNOWN
    if share <= 1 - DOMINATES:
        return Phase.DECODE
    if share < DOMINATES:
        return Phase.BOTH
    if math.isnan(found.prefill_busy):
        return Phase.FIRST_TOKEN
    return Phase.PREFILL if found.prefill_busy >= PREFILL_BUSY else Phase.QUEUE
