"""Grouped-query attention over the paged cache."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.attend import attend_by_plan, attend_sequence, mix
from engine.model.attention_plan import AttentionPlan, DecodeGroup, PrefillSequence
from engine.model.kv_cache import KVCache
from engine.model.mask import Visibility
from engine.model.norm import RMSNorm
from engine.model.rotary import Rotation
from engine.model.spec import GQASpec, QKNorm, TemperatureTuning


@dataclass(frozen=True, slots=True)
class GQAWeights:
    """Projections of one layer, rotated pairs of channels as neighbours; None where absent.

    Attributes:
        qkv: [(H + 2·KV) · head_dim, d]; out: [d, H · head_dim].
        qkv_bias, out_bias: of them.
        head_norm: of every query and key head, weight [H + KV, head_dim] or none.
        query_norm, key_norm: over all heads of one kind.
    """

    qkv: Tensor
    qkv_bias: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    head_norm: RMSNorm | None = None
    query_norm: RMSNorm | None = None
    key_norm: RMSNorm | None = None


class GQAttention:
    """One layer's attention.

    Args:
        layer: index of the layer, for the cache.
        spec: sizes and variants.
        weights: projections.
        visibility: mask of this layer.
        rotary: False for a layer without positions.
        tuning: query scaling by position of a layer without positions.
    """

    def __init__(
        self, *, layer: int, spec: GQASpec, weights: GQAWeights, visibility: Visibility,
        rotary: bool, tuning: TemperatureTuning | None,
    ) -> None:  # fmt: skip
        self._layer = layer
        self._spec = spec
        self._weights = weights
        self._visibility = visibility
        self._rotary = rotary
        self._tuning = None if rotary else tuning
        self._scale = 1.0 / math.sqrt(spec.head_dim)

    def forward(
        self, x: Tensor, positions: Tensor, slots: Tensor, rotation: Rotation,
        plan: AttentionPlan, cache: KVCache,
    ) -> Tensor:  # fmt: skip
        """Attend x [T, d], T ≥ 1: writes this step's keys and values, gives [T, d]."""
        heads = self._project(x, positions, rotation)
        cache.write(self._layer, slots, heads[:, self._spec.heads :])
        mixed = attend_by_plan(
            heads[:, : self._spec.heads], plan, value_dim=self._spec.head_dim,
            decode=lambda rows, group: self._decode(rows, group, cache),
            prefill=lambda rows, sequence: self._prefill(rows, sequence, cache),
        )  # fmt: skip
        return functional.linear(mixed, self._weights.out, self._weights.out_bias)

    def _project(self, x: Tensor, positions: Tensor, rotation: Rotation) -> Tensor:
        """Heads [T, H + 2·KV, head_dim]: queries, keys, values; all in the product's own memory."""
        spec, weights = self._spec, self._weights
        flat = functional.linear(x, weights.qkv, weights.qkv_bias)
        width, turned = spec.heads * spec.head_dim, spec.heads + spec.kv_heads
        if weights.query_norm is not None and weights.key_norm is not None:
            weights.query_norm.apply_(flat[:, :width])
            weights.key_norm.apply_(flat[:, width : turned * spec.head_dim])
        if spec.clip is not None:
            flat.clamp_(-spec.clip, spec.clip)
        heads = flat.view(len(flat), -1, spec.head_dim)
        query_key = heads[:, :turned]
        if weights.head_norm is not None and spec.qk_norm is QKNorm.HEAD:
            weights.head_norm.apply_(query_key)
        if self._rotary:
            rotation.turn_(query_key)
            if weights.head_norm is not None and spec.qk_norm is QKNorm.AFTER_ROTARY:
                weights.head_norm.apply_(query_key)
        if self._tuning is not None:
            steps = ((positions.float() + 1.0) / self._tuning.floor_scale).floor()
            scale = steps.log1p() * self._tuning.scale + 1.0
            heads[:, : spec.heads] *= scale[:, None, None]
        return heads

    def _decode(self, query: Tensor, group: DecodeGroup, cache: KVCache) -> Tensor:
        """One query a sequence, [S, H, head_dim]; one product for all sequences and heads."""
        kv_heads = self._spec.kv_heads
        rows = cache.read_group(self._layer, group)
        key, value = rows.view(2, kv_heads * len(query), -1, self._spec.head_dim).unbind(0)
        grouped = torch.unflatten(query, 1, (kv_heads, -1)).transpose(0, 1).flatten(0, 1)
        mask = group.mask(self._visibility, kv_heads, query.dtype)
        scores = torch.baddbmm(mask, grouped, key.transpose(1, 2), alpha=self._scale)
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
        mixed = torch.unflatten(mix(weights, value), 0, (kv_heads, -1))
        return mixed.transpose(0, 1).flatten(1, 2)

    def _prefill(self, query: Tensor, sequence: PrefillSequence, cache: KVCache) -> Tensor:
        """One sequence's queries, [n, H, head_dim]."""
        context = sequence.cached + query.shape[0]
        repeats = self._spec.heads // self._spec.kv_heads
        rows = cache.read(self._layer, sequence.blocks)[:, :context].repeat_interleave(repeats, 0)
        key, value = rows.transpose(0, 1).chunk(2, dim=1)
        return attend_sequence(query, key, value, self._visibility, self._scale)
