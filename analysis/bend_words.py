"""Where the server bends and why, in words: the knee, the phase that binds there, the scalability law."""

from collections.abc import Iterator

from analysis import names
from analysis.finding import Finding, FindingKind, Number, Severity
from analysis.health import Verdict
from analysis.knee import EFFICIENCY, Knee, Level
from analysis.phase import Binding, Phase
from analysis.server_state import ServerLoad
from analysis.server_words import cited, stalls
from analysis.usl import FARTHEST_PEAK, UslFit
from analysis.wording import number, percent, users
from tokenswarm.format import span
from tokenswarm.metrics import METRICS

UNTOLD = (ServerLoad(), ServerLoad())


def bent(found: Knee | None, points: list[Level]) -> Iterator[Finding]:
    """points: as of `knee.curve`."""
    if len(points) < 2:
        return
    if found is None:
        yield _straight(points)
        return
    doubt = "" if found.sure is not False else " Within the intervals of the throughput it might not bend yet."
    brings = (
        f"brings {number(found.gain)} output tokens/s" if found.gain >= 0 else f"costs {number(-found.gain)} tokens/s"
    )
    text = (
        f"The curve bends between {found.before.users} and {users(found.after.users)}: each request in flight added "
        f"there {brings}, where each of the first brought {number(found.first_gain)} ({percent(found.share)}; a bend is "
        f"below {percent(EFFICIENCY)}). Growth as at first would reach the highest output at "
        f"{number(found.asymptotes_cross)} in flight.{doubt}"
    )
    numbers: dict[str, Number] = {
        "users_before": float(found.before.users),
        "users_after": float(found.after.users),
        "concurrency_before": found.before.concurrency,
        "concurrency_after": found.after.concurrency,
        "gain_share": found.share,
        "asymptotes_cross": found.asymptotes_cross,
    }
    yield Finding(FindingKind.KNEE, text, numbers, Severity.WARNING if found.sure is False else Severity.INFO)
    if points[0].users > 2:
        text = f"The smallest step has {points[0].users} users already: a bend below it would not be seen."
        yield Finding(FindingKind.KNEE, text, {"users": float(points[0].users)}, Severity.WARNING)


def _straight(points: list[Level]) -> Finding:
    first, (before, last) = points[0], points[-2:]
    gain = (last.tokens_per_s - before.tokens_per_s) / (last.concurrency - before.concurrency)
    share = gain / (first.tokens_per_s / first.concurrency)
    text = (
        f"No bend up to {users(last.users)}: at the largest step each request in flight added still brings "
        f"{number(gain)} output tokens/s, {percent(share)} of what each of the first brought (a bend is below "
        f"{percent(EFFICIENCY)})."
    )
    return Finding(FindingKind.KNEE, text, {"users": float(last.users), "gain_share": share})


def bound(found: Binding, servers: tuple[ServerLoad, ServerLoad] = UNTOLD) -> Iterator[Finding]:
    """The phase that binds at the bend, and signs of a full memory. servers: what it said before and after the bend."""
    ttft, tpot = (_grew(metric, found, span_s) for metric, span_s in _times(found))
    share, rest = percent(found.first_token_share), percent(1 - found.first_token_share)
    before = f"There {share} of the time added to a request lies before its first token: {ttft}, while {tpot}."
    busy = f"prompts alone would take {percent(found.prefill_busy)} of the time"
    texts = {
        Phase.QUEUE: f"{before} Requests queue for a place in the batch: about {number(found.decoding)} were decoded at "
        f"once, and {busy}.",
        Phase.PREFILL: f"{before} Prefill binds: {busy}.",
        Phase.FIRST_TOKEN: f"{before} Whether that is queueing or prefill cannot be told: no step had few enough users to "
        "show a prompt's own time.",
        Phase.DECODE: f"There decoding binds: {rest} of the time added to a request lies after its first token: {tpot}, "
        f"while {ttft}.",
        Phase.BOTH: f"There both phases are slower: {share} of the time added to a request lies before its first token "
        f"({ttft}), {rest} after it ({tpot}).",
        Phase.CLIENT: f"What binds there cannot be told: a client process used {percent(found.client_cpu)} of a core, and "
        "the bend may be its own. Use more workers.",
        Phase.UNKNOWN: f"What binds there is unknown: {ttft}, {tpot}; neither explains the bend, or one is withheld.",
    }
    numbers: dict[str, Number] = {
        "phase": found.phase.value,
        "first_token_share": found.first_token_share,
        "ttft_before_s": found.ttft_s[0],
        "ttft_after_s": found.ttft_s[1],
        "tpot_before_s": found.tpot_s[0],
        "tpot_after_s": found.tpot_s[1],
        "prefill_busy": found.prefill_busy,
        "decoding": found.decoding,
    }
    numbers = {name: None if value != value else value for name, value in numbers.items()}  # NaN alone differs so
    text = texts[found.phase]
    if found.phase is not Phase.CLIENT and (servers[1].known or not found.stalled):
        text += f" {cited(*servers, found.phase)}"
    if found.verdict is not Verdict.VALID:
        text += f" (The step after the bend is {found.verdict.value}.)"
    unclear = found.phase in (Phase.CLIENT, Phase.UNKNOWN) or found.verdict is not Verdict.VALID
    yield Finding(FindingKind.PHASE, text, numbers, Severity.WARNING if unclear else Severity.INFO)
    if found.stalled:
        text = (
            f"After the bend one gap in a hundred between tokens is {number(found.stalls[1])} times the usual one or "
            f"longer ({number(found.stalls[0])} times before it): answers pause in the middle, as when a full KV cache "
            f"preempts them, or when the prefill of others comes between. {stalls(servers[1])}"
        )
        ratios = {"stall_before": found.stalls[0], "stall_after": found.stalls[1]}
        yield Finding(FindingKind.PHASE, text, ratios, Severity.WARNING)


def _times(found: Binding) -> list[tuple[str, tuple[float, float]]]:
    return [(names.TTFT, found.ttft_s), (names.TPOT, found.tpot_s)]


def _grew(metric: str, found: Binding, times_s: tuple[float, float]) -> str:
    label, (before, after) = f"{METRICS[metric].label} {found.statistic}", times_s
    factor = f" (× {number(after / before)})" if before > 0 and after == after else ""
    return f"{label} goes from {span(before)} to {span(after)}{factor}"


def _coefficient(value: float) -> str:
    return "below 0.00001" if value < 1e-5 else f"= {number(value)}"


def scaled(found: UslFit) -> Finding:
    """The law's coefficients and its peak, or why they are not shown."""
    if not found.shown:
        text = f"The Universal Scalability Law is not shown: {found.reason}."
        return Finding(FindingKind.SCALING, text, {"steps": float(found.steps), "reason": found.reason})
    fit = (
        f"The Universal Scalability Law fits the {found.steps} steps (R² {found.r2:.3f}, at most "
        f"{percent(found.residual)} off): contention α {_coefficient(found.alpha)}, crosstalk β {_coefficient(found.beta)}"
    )
    if found.peak_concurrency is None or found.peak_tokens_per_s is None:
        reach = number(FARTHEST_PEAK)
        text = f"{fit}. It shows no peak within {reach} times the measured load, or none that every step supports."
    else:
        measured = "beyond" if found.peak_concurrency > found.largest else "within"
        text = (
            f"{fit}. It predicts the highest output, {number(found.peak_tokens_per_s)} tokens/s, at "
            f"{number(found.peak_concurrency)} requests in flight ({measured} what was measured)."
        )
    numbers = {name: getattr(found, name) for name in ("gamma", "alpha", "beta", "r2", "residual")}
    peak = {"peak_concurrency": found.peak_concurrency, "peak_tokens_per_s": found.peak_tokens_per_s}
    return Finding(FindingKind.SCALING, text, numbers | peak)
