"""Token counts as servers tell them, under the names that they use."""

from typing import Any

import msgspec

from tokenswarm.loose_json import count


class Usage(msgspec.Struct):
    """Token counts as the server told them; None where it did not."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None

    def update(self, later: "Usage") -> None:
        """The last non-null value of each count is the one that counts; never a sum."""
        if not later.prompt_tokens and not later.completion_tokens:
            return  # zeros after real counts: a placeholder
        for name in self.__struct_fields__:
            value = getattr(later, name)
            if value is not None:
                setattr(self, name, value)


def read_usage(told: Any) -> Usage | None:
    """The counts in a `usage` object of any dialect; None where it holds none."""
    if not isinstance(told, dict):
        return None
    output_details = told.get("completion_tokens_details") or told.get("output_tokens_details")
    prompt_details = told.get("prompt_tokens_details") or told.get("input_tokens_details")
    reasoning = count(output_details, "reasoning_tokens")
    cached = count(prompt_details, "cached_tokens")
    if cached is None:  # Moonshot, DeepSeek, Anthropic
        cached = count(told, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
    usage = Usage(
        prompt_tokens=count(told, "prompt_tokens", "input_tokens"),
        completion_tokens=count(told, "completion_tokens", "output_tokens"),
        reasoning_tokens=count(told, "reasoning_tokens") if reasoning is None else reasoning,
        cached_tokens=cached,
    )
    return None if usage == Usage() else usage


def chunk_tokens(running: list[int | None], total: int | None) -> list[int] | None:
    """Tokens that each output chunk brought, from the running usage it told; None where not every chunk told it.

    Some servers tell the tokens of the chunk where the running sum is meant: those add up to `total`.
    """
    told = [tokens for tokens in running if tokens is not None]
    if not told or len(told) < len(running):
        return None
    if len(told) > 1 and sum(told) == total and min(told) > 0:
        return told
    steps = [later - earlier for earlier, later in zip([0, *told], told, strict=False)]
    return steps if min(steps) >= 0 and (len(told) == 1 or told[-1] > told[0]) else None
