"""What to distrust, in words: verdicts, few samples, signs in the answers, a law that does not hold, unknown conditions."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from analysis import names
from analysis.evidence import evidence
from analysis.finding import Finding, FindingKind, Severity
from analysis.littles_law import LawCheck
from analysis.run_state import never_begun, told
from analysis.stats import smallest_n
from analysis.verdict_words import doubtful
from analysis.wording import counted, listed, number, percent, users
from tokenswarm.record import Caution, Outcome

WORTH_SAYING = 0.01  # of the answers
OTHER_THAN_ONE = 0.02  # tokens per chunk: beyond it ITL is not the time of a token
WARM = 0.05  # of the prompt tokens
SIGNS = {
    Caution.BUFFERING_SUSPECTED: "look buffered on their way: their gaps are those of a buffer, not of tokens",
    Caution.PROMPT_TRUNCATED: "are to prompts that the server cut: the load was lighter than asked for",
    Caution.SHORT_OUTPUT: "ended before the length asked for: the load was lighter than asked for",
    Caution.USAGE_MISSING: "came without usage: their tokens are not the server's count",
    Caution.HIDDEN_REASONING: "hide tokens that were counted but never streamed: they have no TPOT",
    Caution.NOT_STREAMED: "were not streamed: they have neither TTFT nor ITL",
    Caution.COMPRESSED_STREAM: "were compressed on their way, which holds tokens back",
}


def _finding(text: str, numbers: Mapping[str, float | str | None], severity: Severity = Severity.WARNING) -> Finding:
    return Finding(FindingKind.DISTRUST, text, numbers, severity)


def of_steps(summary: pd.DataFrame) -> Iterator[Finding]:
    """Steps that are not valid, worst first; steps with too few answers; chunks that are no tokens."""
    for verdict, loads, reasons in doubtful(summary):
        text = f"{verdict.value.capitalize()} at {counted(loads)}: {reasons}."
        numbers = {f"users_{i + 1}": float(load) for i, load in enumerate(loads)}
        yield Finding(FindingKind.VERDICT, text, numbers | {"verdict": verdict.value}, Severity.WARNING)
    measured = evidence(summary).to_dict("records")
    answered = names.outcome_count(Outcome.OK)
    need = smallest_n(names.QUANTILES["p95"])
    few = [row for row in measured if row[answered] < need]
    if few:
        counts = listed(f"{row[answered]} at {users(row[names.TARGET_USERS])}" for row in few)
        text = f"Few answers: {counts}; a p95 of requests needs {need}, a p99 {smallest_n(names.QUANTILES['p99'])}."
        yield _finding(text, {f"users_{row[names.TARGET_USERS]}": float(row[answered]) for row in few})
    chunky = [row for row in measured if abs(row[names.TOKENS_PER_CHUNK] - 1) > OTHER_THAN_ONE]
    if chunky:
        ratios = listed(f"{number(row[names.TOKENS_PER_CHUNK])} at {users(row[names.TARGET_USERS])}" for row in chunky)
        text = f"A chunk is not a token (tokens per chunk: {ratios}): ITL is the time between chunks."
        yield _finding(text, {f"users_{row[names.TARGET_USERS]}": row[names.TOKENS_PER_CHUNK] for row in chunky})


def of_requests(requests: pd.DataFrame) -> Iterator[Finding]:
    """Signs in the answers to requests sent in the windows. requests: as of `steady.derive`."""
    answers = requests[requests.in_window & (requests.outcome == Outcome.OK)]
    if not len(answers):
        return
    warned = answers.warnings.fillna("").str.split()
    for caution, words in SIGNS.items():
        share = float(warned.map(lambda found, sign=caution.value: sign in found).mean())
        if share >= WORTH_SAYING:
            yield _finding(f"{percent(share)} of the answers {words}.", {"share": share, "sign": caution.value})
    known = answers[answers.cached_tokens.notna() & (answers.prompt_tokens > 0)]
    warm = float(known.cached_tokens.sum() / known.prompt_tokens.sum()) if len(known) else 0.0
    if warm >= WARM:
        text = (
            f"{percent(warm)} of the prompt tokens came from a warm prefix cache: TTFT is that of partly known prompts."
        )
        yield _finding(text, {"share": warm})


def of_law(checks: list[LawCheck]) -> Iterator[Finding]:
    """Little's law: one finding for each step where it fails, one for those where it holds."""
    for one in checks:
        if one.holds is False:
            text = (
                f"At {users(one.users)} Little's law does not hold: {number(one.observed)} in flight were observed, "
                f"requests/s × mean E2E gives {number(one.expected)} ({one.mismatch:+.0%}, tolerance "
                f"{percent(one.tolerance)}). The window was not steady, or rows or times are wrong."
            )
            yield _finding(text, {"observed": one.observed, "expected": one.expected, "tolerance": one.tolerance})
    held = [one for one in checks if one.holds]
    if not held:
        return
    worst = max(abs(one.mismatch) for one in held)
    not_checked = [f"{users(one.users)} ({one.unchecked})" for one in checks if one.unchecked]
    rest = f" Not checked: {listed(not_checked)}." if not_checked else ""
    text = (
        f"Little's law (in flight = requests/s × mean E2E) holds at {counted(one.users for one in held)}, within "
        f"{percent(worst)}.{rest}"
    )
    yield Finding(FindingKind.LAW, text, {"mismatch": worst, "steps": float(len(held))})


def of_run(info: Mapping[str, Any], steps: int, unjudged: tuple[str, ...]) -> Iterator[Finding]:
    """What the run itself leaves open. info: run.json; steps: how many it began."""
    state = told(info, steps)
    if state is not None:
        yield _finding(state, {"state": str(info["state"]), "never_begun": float(len(never_begun(info, steps)))})
    for name in unjudged:
        yield _finding(f"The objective {name} is not judged: no figure of a step is called so.", {"objective": name})
    conditions = info.get("conditions") or {}
    unknown = sorted(name for name, value in conditions.items() if value is None)
    if unknown or not conditions:
        what = f"these conditions are unknown: {', '.join(unknown)}" if unknown else "its conditions are unknown"
        text = f"Before this run is compared with another: {what} (--condition NAME=VALUE tells them)."
        yield _finding(text, {"unknown": ", ".join(unknown) or None}, Severity.INFO)
