"""Attention weights from a checkpoint."""

import torch
from torch import Tensor

from engine.model.checkpoint.source import TensorSource
from engine.model.decoder import Attention
from engine.model.gqa import GQAttention, GQAWeights
from engine.model.mask import Visibility
from engine.model.mla import MLAttention, MLAWeights
from engine.model.spec import GQASpec, MLASpec, ModelSpec, QKNorm


def read_attention(source: TensorSource, spec: ModelSpec, layer: int) -> Attention:
    """The attention of one layer."""
    stem = f"model.layers.{layer}.self_attn"
    if isinstance(spec.attention, MLASpec):
        weights = _read_mla(source, spec.attention, spec.hidden, stem)
        return MLAttention(layer=layer, spec=spec.attention, weights=weights)
    of_layer = spec.layers[layer]
    return GQAttention(
        layer=layer,
        spec=spec.attention,
        weights=_read_gqa(source, spec.attention, spec.hidden, stem),
        visibility=Visibility(window=spec.attention.window, chunk=of_layer.chunk),
        norm_eps=spec.qk_norm_eps,
        rotary=of_layer.rotary,
        tuning=spec.temperature_tuning,
    )


def _bias(source: TensorSource, name: str, width: int, *, present: bool) -> Tensor | None:
    return source.take(f"{name}.bias", width) if present else None


def _read_gqa(source: TensorSource, spec: GQASpec, hidden: int, stem: str) -> GQAWeights:
    width, kv_width = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
    rows = {"q_proj": width, "k_proj": kv_width, "v_proj": kv_width}
    biases = [
        _bias(source, f"{stem}.{name}", count, present=spec.bias) for name, count in rows.items()
    ]
    query_norm, key_norm = None, None
    if spec.qk_norm in {QKNorm.HEAD, QKNorm.FULL}:
        by_head = spec.qk_norm is QKNorm.HEAD
        query_norm = source.take(f"{stem}.q_norm.weight", spec.head_dim if by_head else width)
        key_norm = source.take(f"{stem}.k_norm.weight", spec.head_dim if by_head else kv_width)
    present = [bias for bias in biases if bias is not None]
    return GQAWeights(
        qkv=torch.cat([
            source.take(f"{stem}.{name}.weight", count, hidden) for name, count in rows.items()
        ]),
        qkv_bias=torch.cat(present) if present else None,
        out=source.take(f"{stem}.o_proj.weight", hidden, width),
        out_bias=_bias(source, f"{stem}.o_proj", hidden, present=spec.bias),
        query_norm=query_norm,
        key_norm=key_norm,
    )  # fmt: skip


def _read_mla(source: TensorSource, spec: MLASpec, hidden: int, stem: str) -> MLAWeights:
    queries = spec.heads * (spec.nope_dim + spec.rope_dim)
    latent = spec.kv_lora_rank + spec.rope_dim
    rank = spec.q_lora_rank
    query_name, query_width = ("q_proj", queries) if rank is None else ("q_a_proj", rank)
    query = source.take(f"{stem}.{query_name}.weight", query_width, hidden)
    key = source.take(f"{stem}.kv_a_proj_with_mqa.weight", latent, hidden)
    down_bias = None
    if spec.bias:
        # The uncompressed query projection never has a bias in this layout.
        query_bias = query.new_zeros(queries) if rank is None else None
        if query_bias is None:
            query_bias = source.take(f"{stem}.q_a_proj.bias", query_width)
        key_bias = source.take(f"{stem}.kv_a_proj_with_mqa.bias", latent)
        down_bias = torch.cat((query_bias, key_bias))
    compressed = rank is not None
    expanded = spec.heads * (spec.nope_dim + spec.value_dim)
    return MLAWeights(
        down=torch.cat((query, key)),
        down_bias=down_bias,
        query_norm=source.take(f"{stem}.q_a_layernorm.weight", query_width) if compressed else None,
        query_up=(
            source.take(f"{stem}.q_b_proj.weight", queries, query_width) if compressed else None
        ),
        latent_norm=source.take(f"{stem}.kv_a_layernorm.weight", spec.kv_lora_rank),
        kv_up=source.take(f"{stem}.kv_b_proj.weight", expanded, spec.kv_lora_rank),
        out=source.take(f"{stem}.o_proj.weight", hidden, spec.heads * spec.value_dim),
        out_bias=_bias(source, f"{stem}.o_proj", hidden, present=spec.bias),
    )
