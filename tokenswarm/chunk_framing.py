"""HTTP chunks that are recognised by the length of a read: a streamed token needs no parser to lose its framing."""

LARGEST_CHUNK_BYTES = 2048  # a token's take some 250
LANE_BYTES = 4096  # of one read: memory for as much as a socket can hold costs 0.5 µs a read


def _chunk_heads() -> list[tuple[bytes, ...] | None]:
    heads: list[tuple[bytes, ...] | None] = [None] * (LANE_BYTES + 1)
    for size in range(1, LARGEST_CHUNK_BYTES):
        head = b"%x\r\n" % size
        heads[len(head) + size + 2] = (head,) if head == head.upper() else (head, b"%X\r\n" % size)
    return heads


# For each length of a read, how it begins if it is just one chunk of a body, with its size in front and CRLF behind.
CHUNK_HEADS = _chunk_heads()
CHUNK_TAIL = b"\r\n"
