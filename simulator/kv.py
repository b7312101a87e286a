"""The KV cache: blocks of tokens, counted, and shared between requests with the same prefix. No clock, no I/O."""

import dataclasses
from collections.abc import Sequence

BlockHash = bytes  # identifies a block by its tokens and all tokens before it


@dataclasses.dataclass(slots=True, eq=False)
class Block:
    """One block. `hash` is set once its content is complete and others may find it."""

    users: int = 1
    hash: BlockHash | None = None


class KvCache:
    """`capacity_blocks` blocks of `block_tokens` tokens.

    A block is used (some request holds it), idle (nobody holds it, but its content can still be found by its hash; it
    is overwritten when room is needed, oldest first) or free.
    """

    def __init__(self, capacity_blocks: int, block_tokens: int) -> None:
        self.capacity_blocks = capacity_blocks
        self.block_tokens = block_tokens
        self._free = capacity_blocks
        self._found: dict[BlockHash, Block] = {}
        self._idle: dict[Block, None] = {}  # a dict for its order: first in, first overwritten

    @property
    def used_blocks(self) -> int:
        return self.capacity_blocks - self.available_blocks

    @property
    def available_blocks(self) -> int:
        return self._free + len(self._idle)

    def blocks_for(self, tokens: int) -> int:
        """Blocks that `tokens` tokens fill, the last perhaps in part."""
        return -(-tokens // self.block_tokens)

    def match(self, hashes: Sequence[BlockHash], limit_tokens: int) -> list[Block]:
        """The present blocks at the start of `hashes`, at most `limit_tokens` of tokens; they are NOT taken yet."""
        blocks: list[Block] = []
        for block_hash in hashes[: max(0, limit_tokens) // self.block_tokens]:
            block = self._found.get(block_hash)
            if block is None:
                break
            blocks.append(block)
        return blocks

    def take(self, blocks: list[Block]) -> None:
        """One more user for each of `blocks`."""
        for block in blocks:
            block.users += 1
            self._idle.pop(block, None)

    def room_for(self, new_blocks: int, matched: list[Block]) -> bool:
        """Whether `new_blocks` can be had when `matched` are taken too: an idle one of them stops being available."""
        return new_blocks <= self.available_blocks - sum(block.users == 0 for block in matched)

    def allocate(self, count: int) -> list[Block]:
        """`count` empty blocks. The caller has asked for room before: there is none here to spare."""
        return [self._allocate() for _ in range(count)]

    def _allocate(self) -> Block:
        if self._free:
            self._free -= 1
            return Block()
        oldest = next(iter(self._idle))
        del self._idle[oldest]
        if oldest.hash is not None:
            del self._found[oldest.hash]
        return Block()

    def publish(self, blocks: Sequence[Block], hashes: Sequence[BlockHash], first: int, tokens: int) -> None:
        """Let others find the blocks from index `first` on that the first `tokens` tokens of a request have filled."""
        for index in range(first, min(tokens // self.block_tokens, len(hashes), len(blocks))):
            if blocks[index].hash is None and hashes[index] not in self._found:
                blocks[index].hash = hashes[index]
                self._found[hashes[index]] = blocks[index]

    def release(self, blocks: list[Block]) -> None:
        """One user fewer for each of `blocks`; the ends of prefixes become overwritable before their beginnings."""
        for block in reversed(blocks):
            block.users -= 1
            if block.users == 0:
                if block.hash is None:
                    self._free += 1
                else:
                    self._idle[block] = None
        blocks.clear()
