"""What a card must hold: experts, common weights, KV cache, expert buffers, a reserve."""

from dataclasses import dataclass

from engine.simulation.cost.shape import ModelShape
from engine.simulation.cost.step import Layout
from engine.simulation.cost.topology import Topology

RESERVE_SHARE = 0.08
"""Of HBM for activations, graphs and the allocator. Assumed."""
BUFFER_VALUE_BYTES = 2


@dataclass(frozen=True, slots=True)
class CardMemory:
    """Bytes of one card; `free` may be negative, then the model does not fit."""

    experts: float
    common: float
    kv_cache: float
    buffers: float
    reserve: float
    capacity: float

    @property
    def free(self) -> float:
        """What is left."""
        used = self.experts + self.common + self.kv_cache + self.buffers + self.reserve
        return self.capacity - used

    @property
    def fits(self) -> bool:
        """Whether all of it fits."""
        return self.free >= 0


def buffer_bytes(
    shape: ModelShape, layout: Layout, *, group_tokens: float, capacity_factor: float
) -> float:
    """Expert inputs and outputs of one card: m·cap·(2·d + 2·f)·2 B, reused by every layer."""
    held = (shape.experts + layout.redundant) / layout.ranks
    capacity = capacity_factor * group_tokens * shape.top_k / shape.experts
    values = 2 * shape.hidden + 2 * shape.expert_size
    return held * capacity * values * BUFFER_VALUE_BYTES / layout.tp


def card_memory(
    shape: ModelShape, where: Topology, layout: Layout, *, kv_tokens: float, group_tokens: float,
    capacity_factor: float = 1.25, kv_value_bytes: float = 2.0,
) -> CardMemory:  # fmt: skip
    """Memory of one card.

    Args:
        shape: the model.
        where: the cluster.
        layout: the cards.
        kv_tokens: cached tokens of one rank.
        group_tokens: T of the largest step over the EP group.
        capacity_factor: C of the buffers.
        kv_value_bytes: of one cached number.
    """
    copies = (shape.experts + layout.redundant) / shape.experts
    # A latent KV row has one head: tensor parallelism does not divide it.
    kv_ways = 1 if shape.attention.is_latent else min(layout.tp, shape.attention.kv_heads)
    return CardMemory(
        experts=shape.routed_bytes * copies / layout.cards,
        common=shape.common_parameters * shape.weight_bytes / layout.tp,
        kv_cache=kv_tokens * shape.kv_bytes(value_bytes=kv_value_bytes) / kv_ways,
        buffers=buffer_bytes(
            shape, layout, group_tokens=group_tokens, capacity_factor=capacity_factor
        ),
        reserve=RESERVE_SHARE * where.memory,
        capacity=where.memory,
    )
