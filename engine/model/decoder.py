"""The decoder: one forward over a flat batch and the paged cache."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from engine.model.attention_plan import AttentionPlan, plan_attention
from engine.model.batch import Batch
from engine.model.kv_cache import KVCache
from engine.model.mlp import DenseMLP
from engine.model.norm import RMSNorm
from engine.model.rotary import RotaryTable, Rotation
from engine.model.spec import ModelSpec
from engine.moe.context import MoEStepContext
from engine.moe.layer import MoELayer


class Attention(Protocol):
    """One layer's attention: GQA or MLA."""

    def forward(
        self, x: Tensor, positions: Tensor, slots: Tensor, rotation: Rotation,
        plan: AttentionPlan, cache: KVCache,
    ) -> Tensor:  # fmt: skip
        """Attend x [T, d], T ≥ 1, at int64 positions [T], cached at int64 slots [T]."""
        ...


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Pre-norm attention and feed-forward; exactly one of `dense` and `moe` is set."""

    attention_norm: RMSNorm
    attention: Attention
    feed_forward_norm: RMSNorm
    dense: DenseMLP | None
    moe: MoELayer | None


class Decoder:
    """A loaded model on one rank. Holds no state of any sequence.

    Args:
        spec: the model.
        embedding: [V, d].
        layers: in order.
        norm: final.
        head: [V, d].
        rotary: table of the whole context.
    """

    def __init__(
        self, *, spec: ModelSpec, embedding: Tensor, layers: tuple[DecoderLayer, ...],
        norm: RMSNorm, head: Tensor, rotary: RotaryTable,
    ) -> None:  # fmt: skip
        self.spec = spec
        self.layers = layers
        self._embedding = embedding
        self._norm = norm
        self._head = head
        self._rotary = rotary

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights; the router stays FP32."""
        return self._embedding.dtype

    @property
    def moe_layers(self) -> tuple[MoELayer, ...]:
        """The MoE layers, in order."""
        return tuple(layer.moe for layer in self.layers if layer.moe is not None)

    @torch.inference_mode()
    def forward(self, batch: Batch, cache: KVCache, context: MoEStepContext) -> Tensor:
        """Next-token logits FP32 [S', V] of the rows in `batch.logits_index`.

        A rank without tokens runs every MoE layer all the same: their collectives need every rank.
        """
        hidden = functional.embedding(batch.token_ids, self._embedding)
        plan = plan_attention(batch, cache.block_tokens)
        cache.start_step(plan)
        rotation = self._rotary.at(batch.positions)
        for layer in self.layers:
            if hidden.shape[0]:
                hidden += layer.attention.forward(
                    layer.attention_norm(hidden), batch.positions, batch.slot_mapping, rotation,
                    plan, cache,
                )  # fmt: skip
            hidden += _feed_forward(layer, layer.feed_forward_norm(hidden), context)
        wanted = hidden.index_select(0, batch.logits_index)
        return functional.linear(self._norm(wanted), self._head).float()


def _feed_forward(layer: DecoderLayer, x: Tensor, context: MoEStepContext) -> Tensor:
    if layer.moe is not None:
        return layer.moe.forward(x, context)
    if layer.dense is not None:
        return layer.dense.forward(x)
    raise ValueError("a decoder layer has neither a dense nor an MoE block")
