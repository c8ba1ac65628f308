"""KV blocks of one rank: a free list and the arithmetic of block tables."""

from collections import deque

from engine.scheduling.sequence import Sequence


def num_blocks_for(num_tokens: int, block_tokens: int) -> int:
    """Blocks that hold `num_tokens` tokens."""
    return -(-num_tokens // block_tokens)


class KVBlocks:
    """The blocks that one rank owns. A block is free or in exactly one block table.

    Args:
        num_blocks: blocks of this rank.
        block_tokens: tokens in a block.
    """

    def __init__(self, num_blocks: int, block_tokens: int) -> None:
        self.num_blocks = num_blocks
        self.block_tokens = block_tokens
        self._free = deque(range(num_blocks))

    @property
    def num_free(self) -> int:
        """Blocks in no table."""
        return len(self._free)

    @property
    def num_used(self) -> int:
        """Blocks in some table."""
        return self.num_blocks - len(self._free)

    def num_missing(self, sequence: Sequence, num_tokens: int) -> int:
        """Blocks that the table lacks to hold the sequence's first `num_tokens` tokens."""
        wanted = num_blocks_for(num_tokens, self.block_tokens)
        return max(0, wanted - len(sequence.block_table))

    def can_allocate(self, sequence: Sequence, num_tokens: int) -> bool:
        """Whether `allocate` would succeed."""
        return self.num_missing(sequence, num_tokens) <= len(self._free)

    def allocate(self, sequence: Sequence, num_tokens: int) -> None:
        """Grow the table to hold the first `num_tokens` tokens.

        Raises:
            ValueError: there are not enough free blocks; nothing was taken.
        """
        missing = self.num_missing(sequence, num_tokens)
        if missing > len(self._free):
            raise ValueError(f"{missing} KV blocks are missing, {len(self._free)} are free")
        sequence.block_table.extend(self._free.popleft() for _ in range(missing))

    def deallocate(self, sequence: Sequence) -> None:
        """Give every block of the table back; what they cached is lost."""
        self._free.extend(sequence.block_table)
        sequence.block_table.clear()
        sequence.num_computed_tokens = 0
