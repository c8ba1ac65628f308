"""Qwen3-MoE: softmax top-k of small experts, query and key norms by head."""

from engine.model.families.fields import Fields
from engine.model.families.gqa_model import read_attention, read_sizes
from engine.model.families.names import QWEN_STYLE
from engine.model.families.rope import read_parameters, rotary_spec
from engine.model.spec import LayerSpec, ModelSpec, QKNorm
from engine.moe.spec import MoESpec, RouterKind


def read(fields: Fields) -> ModelSpec:
    """Read a Qwen3-MoE config."""
    sizes = read_sizes(fields, context=32768, norm_eps=1e-6)
    window = fields.get("sliding_window", None)
    uses_window = fields.flag("use_sliding_window", default=False)
    fields.get("max_window_layers", None)
    attention = read_attention(
        fields, sizes.hidden, qk_norm=QKNorm.HEAD, window=window if uses_window else None
    )
    return ModelSpec(
        family="qwen3_moe",
        vocabulary=sizes.vocabulary,
        hidden=sizes.hidden,
        context=sizes.context,
        inner=fields.whole("intermediate_size"),
        norm_eps=sizes.norm_eps,
        qk_norm_eps=sizes.norm_eps,
        tied=sizes.tied,
        attention=attention,
        rotary=rotary_spec(
            read_parameters(fields, default_theta=10000.0), width=attention.head_dim,
            interleaved=False, context=sizes.context,
        ),
        layers=_layers(fields, sizes.layers),
        moe=MoESpec(
            hidden=sizes.hidden,
            expert_width=fields.whole("moe_intermediate_size", default=768),
            num_experts=_experts(fields),
            top_k=fields.whole("num_experts_per_tok", default=8),
            router=RouterKind.SOFTMAX,
            renormalise=fields.flag("norm_topk_prob", default=False),
        ),
        shared_inner=0,
        names=QWEN_STYLE,
        eos_token_ids=fields.token_ids("eos_token_id"),
    )  # fmt: skip


def _experts(fields: Fields) -> int:
    """Older files say num_experts, newer ones num_local_experts."""
    return fields.whole("num_experts", default=fields.whole("num_local_experts", default=128))


def _layers(fields: Fields, count: int) -> tuple[LayerSpec, ...]:
    """Every `decoder_sparse_step`-th layer routes, but for those listed as dense."""
    step = fields.whole("decoder_sparse_step", default=1)
    dense = frozenset(fields.get("mlp_only_layers", None) or ())
    layers, routed = [], 0
    for index in range(count):
        is_moe = index not in dense and (index + 1) % step == 0
        layers.append(LayerSpec(moe_index=routed if is_moe else None))
        routed += is_moe
    return tuple(layers)
