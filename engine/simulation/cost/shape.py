"""Shape of an MoE model: what its weights, KV cache and tokens weigh."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of one layer.

    Attributes:
        heads, kv_heads, head_dim: grouped-query attention.
        q_rank, kv_rank, rope_dim, value_dim: multi-head latent attention when `kv_rank` > 0;
            `head_dim` is then the part without rotary embedding.
    """

    heads: int
    kv_heads: int
    head_dim: int
    q_rank: int = 0
    kv_rank: int = 0
    rope_dim: int = 0
    value_dim: int = 0

    @property
    def is_latent(self) -> bool:
        """Multi-head latent attention: one compressed KV row a token."""
        return self.kv_rank > 0

    def parameters(self, hidden: int) -> int:
        """Weights of the projections of one layer."""
        if not self.is_latent:
            return hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        query = self.q_rank * (hidden + self.heads * (self.head_dim + self.rope_dim))
        key_value = hidden * (self.kv_rank + self.rope_dim)
        key_value += self.kv_rank * self.heads * (self.head_dim + self.value_dim)
        return query + key_value + self.heads * self.value_dim * hidden

    @property
    def kv_values(self) -> int:
        """Numbers that one token leaves in the KV cache of one layer."""
        if self.is_latent:
            return self.kv_rank + self.rope_dim
        return 2 * self.kv_heads * self.head_dim

    @property
    def score_values(self) -> int:
        """Multiply-adds of one query token with one cached token: scores and values."""
        if self.is_latent:  # absorbed form: every head reads the latent row
            return self.heads * (2 * self.kv_rank + self.rope_dim)
        return 2 * self.heads * self.head_dim


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Everything of a model that costs time or memory.

    Attributes:
        layers, moe_layers: decoder layers, and those of them with experts.
        hidden: d. expert_size: f, inner size of one expert. dense_size: of a layer without experts.
        experts: E. top_k: k. shared_size: inner size of all shared experts of a layer together.
        weight_bytes: of one weight as served. router_groups, groups_per_token: group-limited
            routing, 1 and 1 where there is none.
        has_bias: whether the router has a selection bias.
    """

    name: str
    layers: int
    moe_layers: int
    hidden: int
    expert_size: int
    experts: int
    top_k: int
    attention: Attention
    vocabulary: int
    shared_size: int = 0
    dense_size: int = 0
    weight_bytes: float = 2.0
    router_groups: int = 1
    groups_per_token: int = 1
    has_bias: bool = False

    @property
    def expert_parameters(self) -> int:
        """Weights of one routed expert: three matrices d × f."""
        return 3 * self.hidden * self.expert_size

    @property
    def expert_bytes(self) -> float:
        """Bytes of one routed expert as served."""
        return self.expert_parameters * self.weight_bytes

    @property
    def routed_bytes(self) -> float:
        """Bytes of all routed experts of all layers."""
        return self.moe_layers * self.experts * self.expert_bytes

    @property
    def common_parameters(self) -> int:
        """Weights that every rank of an EP group holds: all but the routed experts."""
        dense = (self.layers - self.moe_layers) * 3 * self.hidden * self.dense_size
        shared = self.moe_layers * 3 * self.hidden * self.shared_size
        router = self.moe_layers * self.hidden * self.experts
        attention = self.layers * self.attention.parameters(self.hidden)
        return dense + shared + router + attention + 2 * self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All weights."""
        return self.common_parameters + self.moe_layers * self.experts * self.expert_parameters

    @property
    def active_parameters(self) -> int:
        """Weights that one token passes through."""
        return self.common_parameters + self.moe_layers * self.top_k * self.expert_parameters

    def kv_bytes(self, *, value_bytes: float = 2.0) -> float:
        """KV cache of one token, all layers."""
        return self.layers * self.attention.kv_values * value_bytes
