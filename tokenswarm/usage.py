"""Token counts as servers tell them, under the names that they use."""

from typing import Any

import msgspec

from tokenswarm.loose_json import count

TEXTLESS_END_TOKENS = 2  # counted after the last text: a stop token, bytes of a character that was never finished


class Usage(msgspec.Struct):
    """Token counts as the server told them; None where it did not."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None

    def update(self, later: "Usage") -> None:
        """The last non-null value of each count is the one that counts, never a sum. A zero after a count is a placeholder."""
        if later.prompt_tokens or self.prompt_tokens is None:
            self.prompt_tokens = later.prompt_tokens
        if later.completion_tokens or self.completion_tokens is None:
            self.completion_tokens = later.completion_tokens
        if later.reasoning_tokens or self.reasoning_tokens is None:
            self.reasoning_tokens = later.reasoning_tokens
        if later.cached_tokens or self.cached_tokens is None:
            self.cached_tokens = later.cached_tokens


_PLAIN = {"prompt_tokens", "completion_tokens", "total_tokens", "completion_tokens_details", "prompt_tokens_details"}


def read_usage(told: Any) -> Usage | None:
    """The counts in a `usage` object of any dialect; None where it holds none."""
    if not isinstance(told, dict):
        return None
    output_details = told.get("completion_tokens_details") or told.get("output_tokens_details")
    prompt_details = told.get("prompt_tokens_details") or told.get("input_tokens_details")
    prompt, output = told.get("prompt_tokens"), told.get("completion_tokens")
    plain = not (output_details or prompt_details) and _PLAIN.issuperset(told)
    if plain and type(prompt) is int and type(output) is int and prompt >= 0 <= output:
        return Usage(prompt, output)  # as running usage comes, on every chunk
    reasoning = count(output_details, "reasoning_tokens")
    cached = count(prompt_details, "cached_tokens")
    if cached is None:  # Moonshot, DeepSeek, Anthropic
        cached = count(told, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
    if reasoning is None:
        reasoning = count(told, "reasoning_tokens")
    prompt, output = count(told, "prompt_tokens", "input_tokens"), count(told, "completion_tokens", "output_tokens")
    if reasoning and prompt is not None and output is not None:
        apart = count(told, "total_tokens") == prompt + output + reasoning  # xAI; others count it among the output
        output += reasoning if apart else 0
    usage = Usage(prompt, output, reasoning, cached)
    return None if usage == Usage() else usage


def chunk_tokens(running: list[int | None], total: int | None) -> list[int] | None:
    """Tokens that each output chunk brought, from the running usage it told; None where not every chunk told it.

    Some servers tell the tokens of the chunk where the running sum is meant: those add up to `total`.
    """
    told = [tokens for tokens in running if tokens is not None]
    if not told or len(told) < len(running):
        return None
    steps = [later - earlier for earlier, later in zip([0, *told], told, strict=False)]
    grows = min(steps) >= 0 and (len(told) == 1 or told[-1] > told[0])
    if grows and (total is None or total - told[-1] <= TEXTLESS_END_TOKENS or sum(told) != total):
        return steps
    return told if sum(told) == total and min(told) > 0 else None
