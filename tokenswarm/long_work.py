"""Work whose length is that of an answer, done in parts: between them, the sockets are looked at."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
PART = 2048  # numbers worked on in one go: some 0.3 ms

Breathe = Callable[[], object]  # looks at the sockets, if that is due


def hold_breath() -> None:
    """For work where nothing waits to be read."""


def parts(numbers: Sequence[T], breathe: Breathe, *, shared: int = 0) -> Iterator[Sequence[T]]:
    """`numbers` part by part, each with the first `shared` of the next; one at least."""
    for begin in range(0, max(1, len(numbers) - shared), PART):
        if begin:
            breathe()
        yield numbers[begin : begin + PART + shared]
