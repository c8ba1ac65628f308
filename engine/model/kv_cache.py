"""The paged KV cache of one rank."""

import torch
from torch import Tensor

from engine.model.spec import AttentionSpec, GQASpec, ModelSpec


def cached_width(attention: AttentionSpec) -> int:
    """Numbers cached for a token and layer: keys and values, or MLA's latent and rotary key."""
    if isinstance(attention, GQASpec):
        return 2 * attention.kv_heads * attention.head_dim
    return attention.kv_lora_rank + attention.rope_dim


class KVCache:
    """One tensor [blocks, block_tokens, width] for each layer.

    A slot is block · block_tokens + offset. For GQA a row is all keys, then all values, by head;
    for MLA it is the normalised latent, then the rotated key that all heads share. Which sequence
    owns which block is the scheduler's business.

    Args:
        spec: the model.
        blocks, block_tokens: size.
        device, dtype: of the cache.
    """

    def __init__(
        self, spec: ModelSpec, *, blocks: int, block_tokens: int,
        device: torch.device, dtype: torch.dtype,
    ) -> None:  # fmt: skip
        self.block_tokens = block_tokens
        self.blocks = blocks
        width = cached_width(spec.attention)
        self._layers = tuple(
            torch.zeros(blocks, block_tokens, width, device=device, dtype=dtype)
            for _ in spec.layers
        )

    def write(self, layer: int, slots: Tensor, rows: Tensor) -> None:
        """Store rows [T, width] at int64 slots [T]."""
        self._layers[layer].flatten(0, 1).index_copy_(0, slots, rows)

    def read(self, layer: int, block_tables: Tensor) -> Tensor:
        """Gather whole blocks: int64 [S, n] → [S, n · block_tokens, width], unused rows as junk."""
        sequences, blocks = block_tables.shape
        gathered = self._layers[layer].index_select(0, block_tables.flatten())
        return gathered.view(sequences, blocks * self.block_tokens, -1)
