"""Attention weights from a checkpoint: fused, with rotated pairs of channels as neighbours."""

import torch
from torch import Tensor

from engine.model.checkpoint.source import TensorSource
from engine.model.decoder import Attention
from engine.model.gqa import GQAttention, GQAWeights
from engine.model.mask import Visibility
from engine.model.mla import MLAttention, MLAWeights
from engine.model.norm import RMSNorm
from engine.model.rotary import paired
from engine.model.spec import GQASpec, MLASpec, ModelSpec, QKNorm

_LATENT_EPS = 1e-6
"""Eps of MLA's latent norms, whatever the config's rms_norm_eps says."""


def read_attention(source: TensorSource, spec: ModelSpec, layer: int) -> Attention:
    """The attention of one layer."""
    stem = f"model.layers.{layer}.self_attn"
    if isinstance(spec.attention, MLASpec):
        weights = _read_mla(source, spec, spec.attention, stem)
        return MLAttention(layer=layer, spec=spec.attention, weights=weights)
    of_layer = spec.layers[layer]
    return GQAttention(
        layer=layer,
        spec=spec.attention,
        weights=_read_gqa(source, spec, spec.attention, stem),
        visibility=Visibility(window=spec.attention.window, chunk=of_layer.chunk),
        rotary=of_layer.rotary,
        tuning=spec.temperature_tuning,
    )


def _bias(source: TensorSource, name: str, width: int, *, present: bool) -> Tensor | None:
    return source.take(f"{name}.bias", width) if present else None


def _read_gqa(source: TensorSource, spec: ModelSpec, gqa: GQASpec, stem: str) -> GQAWeights:
    heads = {"q_proj": gqa.heads, "k_proj": gqa.kv_heads, "v_proj": gqa.kv_heads}

    def fused(kind: str, *columns: int) -> Tensor:
        parts = []
        for name, count in heads.items():
            rows = source.take(f"{stem}.{name}.{kind}", count * gqa.head_dim, *columns)
            parts.append(rows if name == "v_proj" else paired(rows, count, spec.rotary))
        return torch.cat(parts)

    return GQAWeights(
        qkv=fused("weight", spec.hidden),
        qkv_bias=fused("bias") if gqa.bias else None,
        out=source.take(f"{stem}.o_proj.weight", spec.hidden, gqa.heads * gqa.head_dim),
        out_bias=_bias(source, f"{stem}.o_proj", spec.hidden, present=gqa.bias),
        **_read_norms(source, spec, gqa, stem),
    )


def _read_norms(
    source: TensorSource, spec: ModelSpec, gqa: GQASpec, stem: str
) -> dict[str, RMSNorm]:
    """The norms of queries and keys that this model has, by their field of `GQAWeights`."""
    kinds = {"query_norm": ("q_norm", gqa.heads), "key_norm": ("k_norm", gqa.kv_heads)}
    device, eps = source.device, spec.qk_norm_eps
    match gqa.qk_norm:
        case QKNorm.NONE:
            return {}
        case QKNorm.AFTER_ROTARY:
            return {"head_norm": RMSNorm(None, width=gqa.head_dim, eps=eps, device=device)}
        case QKNorm.HEAD:
            rows = [
                paired(source.take(f"{stem}.{name}.weight", gqa.head_dim), 1, spec.rotary).expand(
                    count, -1
                )
                for name, count in kinds.values()
            ]
            joined = torch.cat(rows)
            return {"head_norm": RMSNorm(joined, width=gqa.head_dim, eps=eps, device=device)}
        case QKNorm.FULL:
            norms = {}
            for field, (name, count) in kinds.items():
                width = count * gqa.head_dim
                weight = paired(source.take(f"{stem}.{name}.weight", width), count, spec.rotary)
                norms[field] = RMSNorm(weight, width=width, eps=eps, device=device)
            return norms


def _read_mla(source: TensorSource, spec: ModelSpec, mla: MLASpec, stem: str) -> MLAWeights:
    hidden, queries = spec.hidden, mla.heads * (mla.nope_dim + mla.rope_dim)
    latent = mla.kv_lora_rank + mla.rope_dim
    rank = mla.q_lora_rank
    query_up, query_norm = None, None
    if rank is None:
        query = _turned_last(source.take(f"{stem}.q_proj.weight", queries, hidden), mla, spec)
    else:
        query = source.take(f"{stem}.q_a_proj.weight", rank, hidden)
        query_norm = _latent_norm(source, f"{stem}.q_a_layernorm", rank)
        query_up = _turned_last(source.take(f"{stem}.q_b_proj.weight", queries, rank), mla, spec)
    key = source.take(f"{stem}.kv_a_proj_with_mqa.weight", latent, hidden)
    down_bias = None
    if mla.bias:
        # The uncompressed query projection never has a bias in this layout.
        query_bias = query.new_zeros(queries) if rank is None else None
        if query_bias is None:
            query_bias = source.take(f"{stem}.q_a_proj.bias", len(query))
        key_bias = source.take(f"{stem}.kv_a_proj_with_mqa.bias", latent)
        down_bias = torch.cat((query_bias, _turned_key(key_bias, mla, spec)))
    return MLAWeights(
        down=torch.cat((query, _turned_key(key, mla, spec))),
        down_bias=down_bias,
        query_norm=query_norm,
        query_up=query_up,
        latent_norm=_latent_norm(source, f"{stem}.kv_a_layernorm", mla.kv_lora_rank),
        kv_up=source.take(
            f"{stem}.kv_b_proj.weight", mla.heads * (mla.nope_dim + mla.value_dim), mla.kv_lora_rank
        ),
        out=source.take(f"{stem}.o_proj.weight", hidden, mla.heads * mla.value_dim),
        out_bias=_bias(source, f"{stem}.o_proj", hidden, present=mla.bias),
    )


def _latent_norm(source: TensorSource, name: str, width: int) -> RMSNorm:
    weight = source.take(f"{name}.weight", width)
    return RMSNorm(weight, width=width, eps=_LATENT_EPS, device=weight.device)


def _turned_last(rows: Tensor, mla: MLASpec, spec: ModelSpec) -> Tensor:
    """Query rows [H · (nope + rope), ...]: in each head the rotated ones come last."""
    by_head = rows.view(mla.heads, -1, *rows.shape[1:])
    nope, rope = torch.split(by_head, [mla.nope_dim, mla.rope_dim], dim=1)
    turned = paired(rope.flatten(0, 1), mla.heads, spec.rotary).view(rope.shape)
    return torch.cat((nope, turned), dim=1).flatten(0, 1)


def _turned_key(rows: Tensor, mla: MLASpec, spec: ModelSpec) -> Tensor:
    """Rows [latent + rope, ...] of the latent and the one rotated key."""
    latent, rope = torch.split(rows, [mla.kv_lora_rank, mla.rope_dim])
    return torch.cat((latent, paired(rope, 1, spec.rotary)))
