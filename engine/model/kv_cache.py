"""The paged KV cache of one rank."""

import torch
from torch import Tensor

from engine.model.attention_plan import AttentionPlan, DecodeGroup
from engine.model.decode_rows import DecodeRows
from engine.model.spec import AttentionSpec, GQASpec, ModelSpec


def cached_planes(attention: AttentionSpec) -> tuple[int, int]:
    """Planes of a layer's cache and their width: keys and values by head, or MLA's one latent."""
    if isinstance(attention, GQASpec):
        return 2 * attention.kv_heads, attention.head_dim
    return 1, attention.kv_lora_rank + attention.rope_dim


class KVCache:
    """One tensor [planes, blocks, block_tokens, width] for each layer.

    A slot is block · block_tokens + offset. For GQA the planes are the keys of every head, then
    the values of every head; for MLA the one plane holds the normalised latent, then the rotated
    key that all heads share. A plane of its own for each makes what is gathered dense for a product
    of matrices. Which sequence owns which block is the scheduler's business.

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
        planes, width = cached_planes(spec.attention)
        self._layers = tuple(
            torch.zeros(planes, blocks, block_tokens, width, device=device, dtype=dtype)
            for _ in spec.layers
        )
        self._slots = tuple(layer.flatten(1, 2) for layer in self._layers)
        self._decode_rows = DecodeRows(len(self._layers), block_tokens)

    def start_step(self, plan: AttentionPlan) -> None:
        """Name the step whose rows are written and read next."""
        self._decode_rows.start_step(plan)

    def write(self, layer: int, slots: Tensor, rows: Tensor) -> None:
        """Store rows [T, planes, width] at int64 slots [T]."""
        by_plane = rows.transpose(0, 1)
        self._slots[layer].index_copy_(1, slots, by_plane)
        self._decode_rows.add(layer, by_plane)

    def read(self, layer: int, blocks: Tensor) -> Tensor:
        """Gather whole blocks: int64 [n] → [planes, n · block_tokens, width], unused rows junk."""
        return self._layers[layer].index_select(1, blocks).flatten(1, 2)

    def read_group(self, layer: int, group: DecodeGroup) -> Tensor:
        """The blocks of a decode group, [planes, S · C, width]; not to be changed."""
        rows = self._decode_rows.of(layer, group)
        if rows is None:
            rows = self.read(layer, group.block_tables.view(-1))
            self._decode_rows.keep(layer, group, rows)
        return rows
