"""Whether the server did the work that was asked of it: prompts computed, not remembered, and counted alike."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.chunks import Chunks
from analysis.grade import Finding, grade, never_invalid
from analysis.recount import mismatch
from tokenswarm.record import TokensFrom
from tokenswarm.usage import TEXTLESS_END_TOKENS

# Each pair: beyond the first a step is suspect, beyond the second invalid.
WARM_CACHE = (0.25, 0.50)  # of prompt tokens: a shared system prompt stays below; beyond half, prefill is not measured
MISCOUNTED = (0.05, 0.05)  # of tokens; never invalid: rates are off by as much, times are not
SHARING = "prefix_sharing"  # the condition under which a warm prefix cache is what was asked for
PROMPT_TOKENS = "prompt_tokens"  # the condition: the length that prompts were made for


def told_tokens(requests: pd.DataFrame, chunks: Chunks) -> np.ndarray:
    """Tokens of each request by the server's running count, chunk by chunk; NaN where it told none."""
    found = np.full(len(requests), np.nan)
    filled = np.flatnonzero(chunks.per_request)
    if chunks.tokens is not None and len(filled):
        found[filled] = np.add.reduceat(chunks.tokens, chunks.start[filled], dtype=np.float64)
    return found


def of_workload(sent: pd.DataFrame, told: np.ndarray, conditions: Mapping[str, Any]) -> Iterator[Finding]:
    """sent: requests of the window; told: their `told_tokens`; conditions: of run.json."""
    if not conditions.get(SHARING):
        known = sent[sent.cached_tokens.notna() & (sent.prompt_tokens > 0)]
        share = known.cached_tokens.sum() / known.prompt_tokens.sum() if len(known) else np.nan
        yield from grade(share, WARM_CACHE, f"{share:.0%} of the prompt tokens came from a warm prefix cache")
    asked = conditions.get(PROMPT_TOKENS)
    prompt = sent.prompt_tokens.median()
    if isinstance(asked, int | float) and asked > 0:
        text = (
            f"the server counts {prompt:.0f} tokens in a prompt made to have {asked:.0f}: its tokenizer is another one"
        )
        yield from grade(abs(prompt / asked - 1), never_invalid(MISCOUNTED), text)
    told_of, counted = mismatch(sent, TEXTLESS_END_TOKENS)
    if told_of > 0:
        text = f"the server's usage says {told_of:.0f} output tokens, the tokenizer counts {counted:.0f} in their text"
        yield from grade(abs(counted / told_of - 1), never_invalid(MISCOUNTED), text)
    usage = sent.tokens_from == TokensFrom.USAGE
    total = sent.output_tokens[usage & ~np.isnan(told)].sum()
    running = told[(usage & ~np.isnan(told)).to_numpy()].sum()
    if total > 0:
        text = f"the server's usage says {total:.0f} output tokens, its running count {running:.0f}"
        yield from grade(abs(running / total - 1), never_invalid(MISCOUNTED), text)
