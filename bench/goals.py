"""The goals of the instrument and what was measured for each: one line a goal, comparisons beside them."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from bench.passes import FAST_RATE, RATE, Client, Kind

ERROR_P50_MS, ERROR_P99_MS = 0.02, 0.1
TTFT_P99_MS = {50: 0.5, 200: 0.5, 500: 5.0}
CPU_US, TIMES_C, TIMES_LESS_THAN_SDK = 15.0, 3.0, 8.0
COALESCED_SHARE = 0.01
REACHED_SHARE = 0.98  # of the tokens/s asked for: a missed tick of the emitter is not the client's
FAST_CORES = 0.9  # with more of its core used, the client may be what limits the stream
FLAT_GROWTH = 0.03  # of the resident memory, from the second third to the last
UNPARSED_S = 2.0  # what may wait to be parsed while streams are open
FLOOR_FACTOR = 1.1  # of the C client's errors: as good as it
HELD_BYTES = 100.0  # of an open answer, for each of its tokens: 1 GB for 500 answers of 20,000

Results = Mapping[str, Mapping[str, Any]]  # name of a pass → what its client measured; only those that were made


class Verdict(enum.StrEnum):
    PASS = "pass"
    SHORT = "short of it"
    FLOOR = "as C does"  # short of it, and so is a client that does the system calls only: what the machine allows
    NOT_MEASURED = "not measured"


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """`goal` with a verdict, or, in a comparison without one, how it stands to ours."""

    section: str
    what: str
    measured: str
    goal: str
    verdict: Verdict | None


def lines(results: Results) -> list[Line]:
    """The table, top to bottom."""
    found = _arrival(results) + _ttft(results) + _cpu(results)
    return found + _sustained(results) + _fast(results) + _memory(results)


def _name(client: Client, kind: Kind, streams: int) -> str:
    return f"{client}-{kind}-{streams}"


_LABELS = {
    Client.OURS: "ours",
    Client.OPENAI: "openai SDK loop",
    Client.REQUESTS: "requests loop",
    Client.C: "C client (floor)",
}


def _what(client: Client, streams: int) -> str:
    return f"{_LABELS[client]}, {streams} stream{'s' if streams > 1 else ''}"


def _judged(good: bool, as_floor: bool = False) -> Verdict:
    return Verdict.PASS if good else Verdict.FLOOR if as_floor else Verdict.SHORT


def _judged_errors(error: Mapping[str, float], floor: Mapping[str, Any] | None, p50_ms: float | None) -> Verdict:
    """Errors of arrival against their goals (`p50_ms` None: of p99 only), and against what a C client got beside."""
    limits = {"p99": ERROR_P99_MS} if p50_ms is None else {"p50": p50_ms, "p99": ERROR_P99_MS}
    missed = [name for name, limit_ms in limits.items() if error[name] > limit_ms]
    floors = {} if floor is None else floor["error_ms"]
    return _judged(not missed, all(error[name] <= FLOOR_FACTOR * floors.get(name, 0.0) for name in missed))


def _judged_merged(share: float, floor: Mapping[str, Any] | None) -> Verdict:
    """A share of merged chunks; as the C client's if it exceeds that by no more than would be allowed alone."""
    allowed = 0.0 if floor is None else floor["coalesced_share"]
    return _judged(share <= COALESCED_SHARE, share <= allowed + COALESCED_SHARE and allowed > 0)


def _ms(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.0f}"


def _quantiles(of: Mapping[str, float]) -> str:
    return f"p50 {_ms(of['p50'])}  p99 {_ms(of['p99'])}  max {_ms(of['max'])}"


def _beside(results: Results, section: str, of: str, rivals: list[tuple[Client, int]]) -> list[Line]:
    """The others' quantiles of `of`, and how many times ours the p99 is."""
    found = []
    for client, streams in rivals:
        theirs = results.get(_name(client, Kind.ERRORS, streams))
        ours = results.get(_name(Client.OURS, Kind.ERRORS, streams))
        if theirs is not None and of in theirs:
            ratio = theirs[of]["p99"] / ours[of]["p99"] if ours is not None and ours[of]["p99"] else None
            beside = "" if ratio is None else f"p99 {ratio:,.1f} x ours" if ratio < 10 else f"p99 {ratio:,.0f} x ours"
            found.append(Line(section, _what(client, streams), _quantiles(theirs[of]), beside, None))
    return found


_RIVALS = [
    (Client.C, 1),
    (Client.C, 200),
    (Client.C, 500),
    (Client.OPENAI, 50),
    (Client.OPENAI, 200),
    (Client.REQUESTS, 50),
    (Client.REQUESTS, 200),
]


def _arrival(results: Results) -> list[Line]:
    section = f"error of each token's arrival, in ms; streams of {RATE:g} tokens/s"
    goal = f"p50 ≤ {ERROR_P50_MS:g}, p99 ≤ {ERROR_P99_MS:g}"
    found = []
    for streams in (1, 50, 200, 500):
        ours = results.get(_name(Client.OURS, Kind.ERRORS, streams))
        if ours is None:
            found.append(Line(section, _what(Client.OURS, streams), "", goal, Verdict.NOT_MEASURED))
            continue
        error = ours["error_ms"]
        verdict = _judged_errors(error, results.get(_name(Client.C, Kind.ERRORS, streams)), ERROR_P50_MS)
        found.append(Line(section, _what(Client.OURS, streams), _quantiles(error), goal, verdict))
    return found + _beside(results, section, "error_ms", _RIVALS)


def _ttft(results: Results) -> list[Line]:
    section = "error of TTFT, in ms; all streams end and restart together, again and again"
    found = []
    for streams, limit_ms in TTFT_P99_MS.items():
        ours = results.get(_name(Client.OURS, Kind.ERRORS, streams))
        verdict, said = Verdict.NOT_MEASURED, ""
        if ours is not None:
            verdict, said = _judged(ours["ttft_error_ms"]["p99"] <= limit_ms), _quantiles(ours["ttft_error_ms"])
        found.append(Line(section, _what(Client.OURS, streams), said, f"p99 ≤ {limit_ms:g}", verdict))
    if ours is not None:  # at the most streams
        untrue, flagged = ours["untrue_ttfts"], ours["untrue_ttfts_flagged"]
        verdict, said = _judged(flagged == untrue), f"{flagged} of {untrue}" if untrue else "none was"
    found.append(Line(section, f"flagged where untrue, {streams}", said, "all", verdict))
    return found + _beside(results, section, "ttft_error_ms", _RIVALS)


def _cpu(results: Results) -> list[Line]:
    section = "the client's CPU per token: ours with requests, parsing and rows; C reads only"
    found = []

    def cost(client: Client, kind: Kind, streams: int) -> float | None:
        measured = results.get(_name(client, kind, streams))
        return None if measured is None else measured["cpu_us"]

    for streams in (200, 500):
        ours_us = cost(Client.OURS, Kind.COST, streams)
        verdict = Verdict.NOT_MEASURED if ours_us is None else _judged(ours_us <= CPU_US)
        said = "" if ours_us is None else f"{ours_us:.1f} µs"
        found.append(Line(section, _what(Client.OURS, streams), said, f"≤ {CPU_US:g} µs", verdict))
    for streams in (200, 500):
        c_us = cost(Client.C, Kind.COST, streams)
        what = f"ours / C client, {streams}"
        found.append(_ratio(section, what, cost(Client.OURS, Kind.COST, streams), c_us, TIMES_C, most=True))
    sdk_us, ours_us = cost(Client.OPENAI, Kind.ERRORS, 200), cost(Client.OURS, Kind.COST, 200)
    found.append(_ratio(section, "openai SDK / ours, 200", sdk_us, ours_us, TIMES_LESS_THAN_SDK, most=False))
    plain_us = cost(Client.REQUESTS, Kind.ERRORS, 200)
    if plain_us is not None and ours_us is not None:
        said = f"{plain_us / ours_us:.1f} x   ({plain_us:.1f} µs / {ours_us:.1f} µs)"
        found.append(Line(section, "requests / ours, 200", said, "", None))
    return found


def _ratio(section: str, what: str, over: float | None, under: float | None, limit: float, *, most: bool) -> Line:
    """A ratio of two costs, at most or at least `limit`."""
    goal = f"{'≤' if most else '≥'} {limit:g} x"
    if over is None or under is None:
        return Line(section, what, "", goal, Verdict.NOT_MEASURED)
    ratio = over / under
    good = ratio <= limit if most else ratio >= limit
    return Line(section, what, f"{ratio:.1f} x   ({over:.1f} µs / {under:.1f} µs)", goal, _judged(good))


def _sustained(results: Results) -> list[Line]:
    section = "all at once in one process: 500 streams that go on"
    asked = 500 * RATE
    ours = results.get(_name(Client.OURS, Kind.SUSTAINED, 500))
    speed, merged = f"≥ {REACHED_SHARE:.0%} of {asked:,.0f}", f"≤ {COALESCED_SHARE:.0%}"
    if ours is None:
        return [
            Line(section, "tokens/s", "", speed, Verdict.NOT_MEASURED),
            Line(section, "merged before they were read", "", merged, Verdict.NOT_MEASURED),
        ]
    reached, share = ours["tokens_per_s"], ours["coalesced_share"]
    floor = results.get(_name(Client.C, Kind.SUSTAINED, 500))
    beside = (
        [] if floor is None else [Line(section, "C client (floor)", f"merged {floor['coalesced_share']:.2%}", "", None)]
    )
    stall = f"reads {_ms(ours['read_lag_max_ms'])} ms late, loop {_ms(ours['loop_lag_max_ms'])} ms"
    return [
        Line(section, "tokens/s", f"{reached:,.0f}", speed, _judged(reached >= REACHED_SHARE * asked)),
        Line(section, "merged before they were read", f"{share:.2%}", merged, _judged_merged(share, floor)),
        Line(section, "longest stall", stall, "", None),
        *beside,
    ]


def _fast(results: Results) -> list[Line]:
    section = f"one fast stream: {FAST_RATE:,.0f} tokens/s, a write a token"
    errors = results.get(_name(Client.OURS, Kind.FAST_ERRORS, 1))
    cost = results.get(_name(Client.OURS, Kind.FAST_COST, 1))
    floor = results.get(_name(Client.C, Kind.FAST_ERRORS, 1))
    timed, merged, used = f"p99 ≤ {ERROR_P99_MS:g}", f"≤ {COALESCED_SHARE:.0%}", f"≤ {FAST_CORES:.0%} of a core"
    found = []
    if errors is None:
        found.append(Line(section, "error of arrival, in ms", "", timed, Verdict.NOT_MEASURED))
        found.append(Line(section, "merged before they were read", "", merged, Verdict.NOT_MEASURED))
    else:
        error, share = errors["error_ms"], errors["coalesced_share"]
        verdict = _judged_errors(error, floor, None)
        found.append(Line(section, "error of arrival, in ms", _quantiles(error), timed, verdict))
        verdict = _judged_merged(share, floor)
        found.append(Line(section, "merged before they were read", f"{share:.2%}", merged, verdict))
    said, verdict = "", Verdict.NOT_MEASURED
    if cost is not None:
        said, verdict = (
            f"{cost['cpu_cores']:.0%} at {cost['tokens_per_s']:,.0f} tokens/s",
            _judged(cost["cpu_cores"] <= FAST_CORES),
        )
    found.append(Line(section, "the client's core", said, used, verdict))
    if floor is not None:
        merged = f"merged {floor['coalesced_share']:.2%}"
        found.append(Line(section, "C client (floor)", _quantiles(floor["error_ms"]), merged, None))
    return found


def _memory(results: Results) -> list[Line]:
    section = f"memory at {200 * RATE:,.0f} tokens/s"
    ours = results.get(_name(Client.OURS, Kind.MEMORY, 200))
    flat, bounded = f"grows ≤ {FLAT_GROWTH:.0%}", f"≤ {UNPARSED_S:g} s of tokens"
    if ours is None:
        return [
            Line(section, "resident: warm → end", "", flat, Verdict.NOT_MEASURED),
            Line(section, "most unparsed of open streams", "", bounded, Verdict.NOT_MEASURED),
            _held(results, section),
        ]
    memory = judge_memory(ours["memory"])
    unparsed_s = memory.unparsed_most / (200 * RATE)
    resident = f"{memory.warm_bytes / 1e6:.1f} MB → {memory.end_bytes / 1e6:.1f} MB"
    return [
        Line(section, "resident: warm → end", resident, flat, _judged(memory.growth <= FLAT_GROWTH)),
        Line(
            section, "most unparsed of open streams", f"{unparsed_s:.2f} s", bounded, _judged(unparsed_s <= UNPARSED_S)
        ),
        _held(results, section),
    ]


def _held(results: Results, section: str) -> Line:
    """What long answers hold while they are open."""
    ours = results.get(_name(Client.OURS, Kind.LONG, 20))
    what, goal = "held of an open answer", f"≤ {HELD_BYTES:g} B a token"
    if ours is None:
        return Line(section, what, "", goal, Verdict.NOT_MEASURED)
    resident = [resident for _, resident, _ in ours["memory"]]
    held_bytes = (max(resident) - resident[0]) / ours["tokens"]
    return Line(section, what, f"{held_bytes:.0f} B a token", goal, _judged(held_bytes <= HELD_BYTES))


@dataclasses.dataclass(frozen=True, slots=True)
class Memory:
    warm_bytes: int  # the most of the second third of the time
    end_bytes: int  # the most of the last third
    unparsed_most: int

    @property
    def growth(self) -> float:
        return self.end_bytes / self.warm_bytes - 1


def judge_memory(samples: list[tuple[float, int, int]]) -> Memory:
    """`samples`: seconds, resident bytes, arrivals not yet parsed; the first third of the time is warm-up."""
    end_s = samples[-1][0]
    warm = [resident for at_s, resident, _ in samples if end_s / 3 <= at_s < 2 * end_s / 3]
    last = [resident for at_s, resident, _ in samples if at_s >= 2 * end_s / 3]
    return Memory(max(warm), max(last), max(unparsed for _, _, unparsed in samples))
