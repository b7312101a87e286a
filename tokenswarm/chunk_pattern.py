"""Most chunks of an answer differ from each other in one string only: the text.

One of them, read in full, tells what stands before and behind that string. Whatever has the same bytes there, and in
between only characters that JSON writes as they are, means the same with another text: to compare is all that is left
to do, in a fifth of the time. Whatever is not just so is read in full.
"""

import itertools
from collections.abc import Sequence

from tokenswarm.choice import RARE
from tokenswarm.chunk import decode_chunk

TEXT_FIELDS = ("content", "reasoning_content", "reasoning")
LONGEST_RUN = 128
_PROBE = "~probe~"


class Pattern:
    """`head` and `tail` of a read that is one event with one chunk; the text is in `field` of its choice `index`."""

    __slots__ = ("_from", "_until", "field", "head", "index", "tail")

    def __init__(self, head: bytes, tail: bytes, field: str, index: int) -> None:
        self.head = head
        self.tail = tail
        self.field = field
        self.index = index
        self._from, self._until = len(head), -len(tail)

    def run(self, reads: Sequence[bytes], start: int) -> list[bytes]:
        """The texts, in UTF-8, of the reads from `start` on that follow the pattern: up to the first that does not."""
        head, tail, begin, end = self.head, self.tail, self._from, self._until
        found = []
        for data in itertools.islice(reads, start, start + LONGEST_RUN):
            if not data.startswith(head) or not data.endswith(tail):
                break
            found.append(data[begin:end])
        return found if _are_plain(found) else list(itertools.takewhile(lambda text: _are_plain([text]), found))


def _are_plain(texts: list[bytes]) -> bool:
    """Whether each is text that JSON writes as it is: some UTF-8 without control characters, quotes and backslashes."""
    try:
        joined = b" ".join(texts).decode()
    except UnicodeDecodeError:
        return False
    return joined.isprintable() and '"' not in joined and "\\" not in joined and b"" not in texts


def learn(data: bytes, before: int, behind: int) -> Pattern | None:
    """The pattern of a read whose chunk lies between its first `before` and its last `behind` bytes.

    None where it carries anything but one text, or where that cannot be told from the rest. Raises as `decode_chunk`.
    """
    chunk = decode_chunk(data[before:-behind])
    if len(chunk.choices) != 1 or chunk.usage or chunk.error or chunk.x_groq is not None:
        return None
    choice = chunk.choices[0]
    delta = choice.delta
    fields = [name for name in TEXT_FIELDS if getattr(delta, name)]
    if len(fields) != 1 or choice.finish_reason or choice.error or any(getattr(delta, name) for name in RARE):
        return None
    text: str = getattr(delta, fields[0])
    quoted = f'"{text}"'.encode("utf-8", "surrogatepass")
    if data.count(quoted) != 1:
        return None
    at = data.index(quoted) + 1
    found = Pattern(data[:at], data[at + len(quoted) - 2 :], fields[0], choice.index)
    if not found.run([data], 0):
        return None
    # is it there that the text comes from? Another one put there must come out, and change nothing else
    probe = decode_chunk((found.head + _PROBE.encode() + found.tail)[before:-behind])
    setattr(delta, fields[0], _PROBE)
    return found if probe == chunk else None
