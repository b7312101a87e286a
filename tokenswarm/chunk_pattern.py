"""Most chunks of an answer differ from each other in one string only: the text.

One of them, read in full, tells what stands before and behind that string. Whatever has the same bytes there means the
same with another text, and the texts of many are decoded at once: in a twentieth of the time. Whatever is not just so
is read in full.
"""

import itertools
from collections.abc import Callable

import msgspec

from tokenswarm.choice import RARE
from tokenswarm.chunk import decode_chunk

TEXT_FIELDS = ("content", "reasoning_content", "reasoning")
LONGEST_RUN = 128
_PROBE = "~probe~"

_decode_texts: Callable[[bytes], list[str]] = msgspec.json.Decoder(list[str]).decode


class Pattern:
    """`head` and `tail` of a read that is one event with one chunk; the text is in `field` of its choice `index`."""

    __slots__ = ("_between", "_from", "_quotes", "_until", "field", "head", "index", "tail")

    def __init__(self, head: bytes, tail: bytes, field: str, index: int) -> None:
        self.head = head
        self.tail = tail
        self.field = field
        self.index = index
        self._between = tail + head
        self._from, self._until = len(head), -len(tail)
        self._quotes = self._between.count(b'"')

    def run(self, reads: list[bytes], start: int) -> list[str]:
        """The texts of the reads from `start` on that follow the pattern: of all of them, up to the first that does not
        or to LONGEST_RUN; of fewer where one has a quote in its text, but of one at least.
        """
        found = reads[start : start + LONGEST_RUN]
        while found and not found[-1].startswith(self.head):  # the end of the answer, mostly
            del found[-1]
        texts = self._texts(found)
        if texts is not None:
            return texts
        for check, part in ((bytes.startswith, self.head), (bytes.endswith, self.tail)):
            fit = list(map(check, found, itertools.repeat(part)))
            if False in fit:
                del found[fit.index(False) :]
        quotes = [read.count(b'"') != self._quotes for read in found]
        many = max(quotes.index(True), 1) if True in quotes else len(found)
        while texts is None and many > 0:
            texts = self._texts(found[:many])
            many //= 2
        return texts or []

    def _texts(self, reads: list[bytes]) -> list[str] | None:
        """The texts of `reads`. None where one of them does not follow, or where that cannot be told: if there are
        several, none of their texts may hold a quote.
        """
        begin, end = self._from, self._until
        if not reads:
            return []
        texts = [read[begin:end] for read in reads]
        # of the same lengths as the reads, so that they are equal only one by one
        if b"".join(reads) != self.head + self._between.join(texts) + self.tail:
            return None
        listed = b'["' + b'","'.join(texts) + b'"]'
        if b"" in texts or (len(reads) > 1 and listed.count(b'"') != 2 * len(reads)):
            return None
        try:
            decoded = _decode_texts(listed)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return decoded if len(decoded) == len(reads) else None


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
    if len(fields) != 1 or any(getattr(delta, name) for name in RARE):
        return None
    if choice.finish_reason or choice.error or choice.usage:
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
