"""HTTP chunks that are recognised by the length of a read: a streamed token needs no parser to lose its framing."""

LARGEST_CHUNK_BYTES = 2048  # a token's take some 250


def _chunk_heads() -> dict[int, tuple[bytes, ...]]:
    heads: dict[int, tuple[bytes, ...]] = {}
    for size in range(1, LARGEST_CHUNK_BYTES):
        head = b"%x\r\n" % size
        heads[len(head) + size + 2] = (head,) if head == head.upper() else (head, b"%X\r\n" % size)
    return heads


# Length of a read → how it begins if it is just one chunk of a body, with its size in front and CRLF behind.
CHUNK_HEADS = _chunk_heads()
CHUNK_TAIL = b"\r\n"
