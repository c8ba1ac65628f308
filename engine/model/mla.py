"""Multi-head latent attention over the paged cache (DeepSeek-V2, arXiv 2405.04434, § 2.1).

Only the latent and the shared rotary key are cached. Prefill expands them to keys and values of
every head; decode instead absorbs the expansion into the query and the output, so that a step reads
the latent alone.
"""

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
from engine.model.spec import MLASpec


@dataclass(frozen=True, slots=True)
class MLAWeights:
    """Projections of one layer, rotated pairs of channels as neighbours.

    Attributes:
        down: [(q_lora_rank or H · (nope + rope)) + kv_lora_rank + rope, d]: query (compressed where
            there is a q_lora_rank), latent and rotary key in one product.
        down_bias: of it, None without.
        query_norm: over q_lora_rank, query_up: [H · (nope + rope), q_lora_rank]; None without.
        latent_norm: over kv_lora_rank.
        kv_up: [H · (nope + value), kv_lora_rank].
        out: [d, H · value]; out_bias: [d] or None.
    """

    down: Tensor
    down_bias: Tensor | None
    query_norm: RMSNorm | None
    query_up: Tensor | None
    latent_norm: RMSNorm
    kv_up: Tensor
    out: Tensor
    out_bias: Tensor | None


class MLAttention:
    """One layer's attention.

    Args:
        layer: index of the layer, for the cache.
        spec: sizes.
        weights: projections.
    """

    def __init__(self, *, layer: int, spec: MLASpec, weights: MLAWeights) -> None:
        self._layer = layer
        self._spec = spec
        self._weights = weights
        by_head = weights.kv_up.view(spec.heads, spec.nope_dim + spec.value_dim, spec.kv_lora_rank)
        # [H, nope, latent] folds a query into latent space; [H, latent, value] unfolds the mixture.
        self._absorb_key = by_head[:, : spec.nope_dim].contiguous()
        self._absorb_value = by_head[:, spec.nope_dim :].transpose(1, 2).contiguous()

    def forward(
        self, x: Tensor, positions: Tensor, slots: Tensor, rotation: Rotation,
        plan: AttentionPlan, cache: KVCache,
    ) -> Tensor:  # fmt: skip
        """Attend x [T, d], T ≥ 1: writes this step's latents, gives [T, d]."""
        del positions  # only a rotation depends on them here
        query = self._project(x, slots, rotation, cache)
        mixed = attend_by_plan(
            query, plan, value_dim=self._spec.value_dim,
            decode=lambda rows, group: self._decode(rows, group, cache),
            prefill=lambda rows, sequence: self._prefill(rows, sequence, cache),
        )  # fmt: skip
        return functional.linear(mixed, self._weights.out, self._weights.out_bias)

    def _project(self, x: Tensor, slots: Tensor, rotation: Rotation, cache: KVCache) -> Tensor:
        """Write latents and rotated keys; give queries [T, H, nope + rope], rotated."""
        spec, weights = self._spec, self._weights
        down = functional.linear(x, weights.down, weights.down_bias)
        query, cached = down.tensor_split([down.shape[1] - spec.kv_lora_rank - spec.rope_dim], 1)
        rotation.turn_(cached[:, spec.kv_lora_rank :].unsqueeze(1))
        weights.latent_norm.apply_(cached[:, : spec.kv_lora_rank])
        cache.write(self._layer, slots, cached.unsqueeze(1))
        if weights.query_norm is not None and weights.query_up is not None:
            query = functional.linear(weights.query_norm(query), weights.query_up)
        query = torch.unflatten(query, 1, (spec.heads, -1))
        rotation.turn_(query[..., spec.nope_dim :])
        return query

    def _decode(self, query: Tensor, group: DecodeGroup, cache: KVCache) -> Tensor:
        """One query a sequence, [S, H, nope + rope] → [S, H, value], in latent space."""
        spec = self._spec
        rows = cache.read_group(self._layer, group).view(
            len(query), -1, spec.kv_lora_rank + spec.rope_dim
        )
        folded = torch.bmm(query[..., : spec.nope_dim].transpose(0, 1), self._absorb_key)
        folded = torch.cat((folded.transpose(0, 1), query[..., spec.nope_dim :]), dim=-1)
        mask = group.mask(Visibility(), 1, query.dtype)
        scores = torch.baddbmm(mask, folded, rows.transpose(1, 2), alpha=spec.softmax_scale)
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(query.dtype)
        latent = mix(weights, rows)[..., : spec.kv_lora_rank]
        return torch.bmm(latent.transpose(0, 1), self._absorb_value).transpose(0, 1)

    def _prefill(self, query: Tensor, sequence: PrefillSequence, cache: KVCache) -> Tensor:
        """One sequence's queries, [n, H, nope + rope] → [n, H, value], keys expanded."""
        spec = self._spec
        context = sequence.cached + query.shape[0]
        rows = cache.read(self._layer, sequence.blocks)[0, :context]
        latent, turned = torch.split(rows, [spec.kv_lora_rank, spec.rope_dim], dim=-1)
        expanded = functional.linear(latent, self._weights.kv_up)
        expanded = expanded.view(context, spec.heads, spec.nope_dim + spec.value_dim)
        key_nope, value = torch.split(expanded, [spec.nope_dim, spec.value_dim], dim=-1)
        key = torch.cat((key_nope, turned.unsqueeze(1).expand(-1, spec.heads, -1)), dim=-1)
        return attend_sequence(query, key, value, Visibility(), spec.softmax_scale)
