"""Grouped-query attention over the paged cache."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.attend import attend_by_plan, attend_sequence
from engine.model.attention_plan import AttentionPlan, DecodeGroup, PrefillSequence
from engine.model.kv_cache import KVCache
from engine.model.mask import Visibility
from engine.model.norm import rms_norm
from engine.model.rotary import Rotation
from engine.model.spec import GQASpec, QKNorm, TemperatureTuning


@dataclass(frozen=True, slots=True)
class GQAWeights:
    """Projections of one layer; biases and norms are None where absent.

    Attributes:
        qkv: [(H + 2·KV) · head_dim, d]; out: [d, H · head_dim].
        qkv_bias, out_bias: of them.
        query_norm, key_norm: [head_dim], or over all heads.
    """

    qkv: Tensor
    qkv_bias: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None


class GQAttention:
    """One layer's attention.

    Args:
        layer: index of the layer, for the cache.
        spec: sizes and variants.
        weights: projections.
        visibility: mask of this layer.
        norm_eps: of the query and key norms.
        rotary: False for a layer without positions.
        tuning: query scaling by position of a layer without positions.
    """

    def __init__(
        self, *, layer: int, spec: GQASpec, weights: GQAWeights, visibility: Visibility,
        norm_eps: float, rotary: bool, tuning: TemperatureTuning | None,
    ) -> None:  # fmt: skip
        self._layer = layer
        self._spec = spec
        self._weights = weights
        self._visibility = visibility
        self._norm_eps = norm_eps
        self._rotary = rotary
        self._tuning = None if rotary else tuning
        self._scale = 1.0 / math.sqrt(spec.head_dim)

    def forward(
        self, x: Tensor, positions: Tensor, slots: Tensor, rotation: Rotation,
        plan: AttentionPlan, cache: KVCache,
    ) -> Tensor:  # fmt: skip
        """Attend x [T, d], T ≥ 1: writes this step's keys and values, gives [T, d]."""
        query, key, value = self._project(x, positions, rotation)
        cache.write(self._layer, slots, torch.cat((key.flatten(1), value.flatten(1)), dim=-1))
        mixed = attend_by_plan(
            query, plan, value_dim=self._spec.head_dim,
            decode=lambda rows, group: self._decode(rows, group, cache),
            prefill=lambda rows, sequence: self._prefill(rows, sequence, cache),
        )  # fmt: skip
        return functional.linear(mixed, self._weights.out, self._weights.out_bias)

    def _project(
        self, x: Tensor, positions: Tensor, rotation: Rotation
    ) -> tuple[Tensor, Tensor, Tensor]:
        spec, weights = self._spec, self._weights
        width, kv_width = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        flat = functional.linear(x, weights.qkv, weights.qkv_bias)
        query, key, value = torch.split(flat, [width, kv_width, kv_width], dim=-1)
        if spec.qk_norm is QKNorm.FULL:
            query = rms_norm(query, weights.query_norm, self._norm_eps)
            key = rms_norm(key, weights.key_norm, self._norm_eps)
        if spec.clip is not None:
            query, key, value = (part.clamp(-spec.clip, spec.clip) for part in (query, key, value))
        query = torch.unflatten(query, 1, (spec.heads, spec.head_dim))
        key = torch.unflatten(key, 1, (spec.kv_heads, spec.head_dim))
        if spec.qk_norm is QKNorm.HEAD:
            query = rms_norm(query, weights.query_norm, self._norm_eps)
            key = rms_norm(key, weights.key_norm, self._norm_eps)
        if self._rotary:
            query, key = rotation.apply(query), rotation.apply(key)
            if spec.qk_norm is QKNorm.AFTER_ROTARY:
                query = rms_norm(query, None, self._norm_eps)
                key = rms_norm(key, None, self._norm_eps)
        if self._tuning is not None:
            steps = ((positions.float() + 1.0) / self._tuning.floor_scale).floor()
            scale = steps.log1p() * self._tuning.scale + 1.0
            query = (query * scale[:, None, None]).to(query.dtype)
        return query, key, torch.unflatten(value, 1, (spec.kv_heads, spec.head_dim))

    def _cached(self, block_tables: Tensor, cache: KVCache) -> tuple[Tensor, Tensor]:
        """Keys and values [S, KV, C, head_dim]."""
        spec = self._spec
        rows = cache.read(self._layer, block_tables)
        rows = torch.unflatten(rows, 2, (2, spec.kv_heads, spec.head_dim))
        return rows[:, :, 0].transpose(1, 2), rows[:, :, 1].transpose(1, 2)

    def _decode(self, query: Tensor, group: DecodeGroup, cache: KVCache) -> Tensor:
        """One query a sequence, [S, H, head_dim]."""
        spec = self._spec
        key, value = self._cached(group.block_tables, cache)
        grouped = torch.unflatten(query, 1, (spec.kv_heads, -1)) * self._scale
        scores = grouped @ key.transpose(2, 3)
        hidden = ~self._visibility.mask(group.positions, group.key_positions)
        scores = scores.float().masked_fill(hidden[:, None, None], float("-inf"))
        weights = scores.softmax(dim=-1).to(query.dtype)
        return (weights @ value).flatten(1, 2)

    def _prefill(self, query: Tensor, sequence: PrefillSequence, cache: KVCache) -> Tensor:
        """One sequence's queries, [n, H, head_dim]."""
        context = sequence.cached + query.shape[0]
        repeats = self._spec.heads // self._spec.kv_heads
        key, value = (
            part[0, :, :context].transpose(0, 1).repeat_interleave(repeats, dim=1)
            for part in self._cached(sequence.block_table, cache)
        )
        return attend_sequence(query, key, value, self._visibility, self._scale)
