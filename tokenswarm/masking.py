"""Secrets out of texts: servers echo keys in their errors, and errors are kept and shown."""

from collections.abc import Iterable

MASK = "***"
SHORTEST_SECRET = 6  # what is shorter guards nothing, and stands in every other text by chance


def masked(text: str, secrets: Iterable[str]) -> str:
    """`text` without `secrets`, nor the beginning of one at its end where it was cut. Servers echo keys in their errors."""
    for secret in secrets:
        if len(secret) < SHORTEST_SECRET:
            continue
        text = text.replace(secret, MASK)
        cut = text.removesuffix("…")
        if cut != text:
            begun = next((size for size in range(len(secret) - 1, 3, -1) if cut.endswith(secret[:size])), 0)
            text = f"{cut[:-begun]}{MASK}…" if begun else text
    return text
