"""What a client measured against the truth that the emitter wrote into the tokens."""

import array
import dataclasses
import json
import typing
from collections.abc import Iterable, Sequence

import numpy as np


class Token(typing.NamedTuple):
    """What a token says: when it was written, and, in a first one, when the kernel received its request (epoch ns)."""

    written_ns: int
    received_ns: int | None


def read_token(text: str) -> Token:
    """The truth in a token's text. Raises ValueError where there is none, or that of several tokens at once."""
    received, colon, written = text.rpartition(":")
    return Token(int(written), int(received) if colon else None)


@dataclasses.dataclass(slots=True)
class Comparison:
    """Errors of all tokens and of all first tokens, in ns; and the TTFTs themselves, measured and true."""

    errors_ns: array.array = dataclasses.field(default_factory=lambda: array.array("q"))
    ttft_errors_ns: array.array = dataclasses.field(default_factory=lambda: array.array("q"))
    ttfts_ns: array.array = dataclasses.field(default_factory=lambda: array.array("q"))
    true_ttfts_ns: array.array = dataclasses.field(default_factory=lambda: array.array("q"))

    def add(self, sent_ns: int, arrivals_ns: Sequence[int], texts: Sequence[str]) -> int:
        """One answer: when it was asked for, when each token is said to have come. Returns the TTFT's error in ns."""
        tokens = [read_token(text) for text in texts]
        first = tokens[0]
        if first.received_ns is None:
            raise ValueError(f"the first token {texts[0]!r} does not say when its request was received")
        self.errors_ns.extend(
            [arrived_ns - token.written_ns for arrived_ns, token in zip(arrivals_ns, tokens, strict=True)]
        )
        ttft_ns, true_ns = arrivals_ns[0] - sent_ns, first.written_ns - first.received_ns
        self.ttfts_ns.append(ttft_ns)
        self.true_ttfts_ns.append(true_ns)
        self.ttft_errors_ns.append(ttft_ns - true_ns)
        return ttft_ns - true_ns

    def summary(self) -> dict[str, dict[str, float]]:
        """The JSON of it: errors by their size, whatever their sign."""
        return {
            "error_ms": quantiles_ms(np.abs(np.asarray(self.errors_ns))),
            "ttft_error_ms": quantiles_ms(np.abs(np.asarray(self.ttft_errors_ns))),
            "ttft_ms": quantiles_ms(self.ttfts_ns),
            "true_ttft_ms": quantiles_ms(self.true_ttfts_ns),
        }


def quantiles_ms(values_ns: Iterable[int]) -> dict[str, float]:
    """p50, p99 and max of `values_ns` in ms, each a value that occurred, and how many there were (at least one)."""
    values = np.sort(np.asarray(values_ns, dtype=np.int64))
    p50, p99 = np.percentile(values, [50, 99], method="inverted_cdf")
    return {"p50": p50 / 1e6, "p99": p99 / 1e6, "max": values[-1] / 1e6, "samples": len(values)}


def rounded(value: object) -> object:
    """`value` for JSON: figures with six digits after the point."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return round(float(value), 6) if isinstance(value, float) else value


def tell(result: dict[str, object]) -> None:
    """Print a client's result where `processes.run_client` looks for it."""
    print(json.dumps(rounded(result)), flush=True)
