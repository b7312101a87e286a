"""Summaries made by hand: the columns of `analysis.names`, for a step that is healthy unless told otherwise."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis import names
from analysis.health import Verdict
from tokenswarm.record import Outcome

REQUESTS = 1000  # of each step: its window is as long as that takes


def a_step(
    users: int,
    ttft_s: float = 0.1,
    tpot_s: float = 0.02,
    tokens: int = 51,
    spread: float = 0.05,
    **more: Any,
) -> dict[str, Any]:
    """A closed loop of `users`, each answered at once again: p95 is twice p50, p99 thrice, intervals ± `spread`.

    Rates follow from the times by Little's law. `more`: columns that differ.
    """
    e2e_s = ttft_s + tpot_s * (tokens - 1)
    rate = users / e2e_s
    row: dict[str, Any] = {
        names.STEP: users,
        names.TARGET_USERS: users,
        names.OBSERVED_CONCURRENCY: float(users),
        names.VERDICT: Verdict.VALID.value,
        names.REASONS: "",
        names.WINDOW_LENGTH_S: REQUESTS / rate,
        names.SENT: REQUESTS,
        **{names.outcome_count(outcome): 0 for outcome in Outcome},
        names.outcome_count(Outcome.OK): REQUESTS,
        names.CENSORED: 0,
        names.ERROR_RATIO: 0.0,
        names.TRUNCATED_RATIO: 0.0,
        names.OUTPUT_TOKENS_PER_S: rate * tokens,
        names.TOTAL_TOKENS_PER_S: rate * (tokens + 100),
        names.REQUESTS_PER_S: rate,
        names.TOKENS_PER_CHUNK: 1.0,
    }
    for metric, value in ((names.TTFT, ttft_s), (names.ITL, tpot_s), (names.TPOT, tpot_s), (names.E2E, e2e_s)):
        for which, factor in ((names.MEAN, 1), ("p50", 1), ("p95", 2), ("p99", 3)):
            row[names.stat(metric, which)] = value * factor
            row[names.stat(metric, which, names.LOW)] = value * factor * (1 - spread)
            row[names.stat(metric, which, names.HIGH)] = value * factor * (1 + spread)
    return row | more


def table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


def a_queue(
    loads: Sequence[int], places: int, ttft_s: float = 0.05, tpot_s: float = 0.02, tokens: int = 51
) -> pd.DataFrame:
    """A server that decodes `places` requests at once, each as fast as alone; the others wait for a place."""
    service_s = ttft_s + tpot_s * (tokens - 1)
    rows = []
    for users in loads:
        waits_s = service_s * max(users / places - 1, 0)
        rows.append(a_step(users, ttft_s + waits_s, tpot_s, tokens))
    return table(rows)


def a_slow_decoder(loads: Sequence[int], tpot_s: float = 0.01, each_s: float = 0.01) -> pd.DataFrame:
    """Every further request in the batch makes each token `each_s` slower; first tokens come as fast as ever."""
    return table([a_step(users, 0.05, tpot_s + each_s * (users - 1)) for users in loads])


def a_prefiller(loads: Sequence[int], prompt_s: float = 0.5, tpot_s: float = 0.01, tokens: int = 21) -> pd.DataFrame:
    """Prompts are worked off one by one, `prompt_s` each, and are the bottleneck; decoding is never disturbed."""
    decode_s = tpot_s * (tokens - 1)
    rows = []
    for users in loads:
        e2e_s = max(prompt_s + decode_s, users * prompt_s)  # at saturation one request leaves every prompt_s
        rows.append(a_step(users, e2e_s - decode_s, tpot_s, tokens))
    return table(rows)
