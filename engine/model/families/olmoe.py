"""OLMoE: softmax top-k, query and key norms over all heads, clipped projections."""

from engine.model.families.fields import Fields
from engine.model.families.gqa_model import read_attention, read_sizes
from engine.model.families.names import QWEN_STYLE
from engine.model.families.rope import read_parameters, rotary_spec
from engine.model.spec import LayerSpec, ModelSpec, QKNorm
from engine.moe.spec import MoESpec, RouterKind


def read(fields: Fields) -> ModelSpec:
    """Read an OLMoE config."""
    sizes = read_sizes(fields, context=4096, norm_eps=1e-5)
    clip = fields.get("clip_qkv", None)
    attention = read_attention(
        fields, sizes.hidden, qk_norm=QKNorm.FULL, clip=None if clip is None else float(clip)
    )
    width = fields.whole("intermediate_size")
    return ModelSpec(
        family="olmoe",
        vocabulary=sizes.vocabulary,
        hidden=sizes.hidden,
        context=sizes.context,
        inner=width,
        norm_eps=sizes.norm_eps,
        qk_norm_eps=sizes.norm_eps,
        tied=sizes.tied,
        attention=attention,
        rotary=rotary_spec(
            read_parameters(fields, default_theta=10000.0), width=attention.head_dim,
            interleaved=False, context=sizes.context,
        ),
        layers=tuple(LayerSpec(moe_index=index) for index in range(sizes.layers)),
        moe=MoESpec(
            hidden=sizes.hidden,
            expert_width=width,
            num_experts=fields.whole("num_experts", default=64),
            top_k=fields.whole("num_experts_per_tok", default=8),
            router=RouterKind.SOFTMAX,
            renormalise=fields.flag("norm_topk_prob", default=False),
        ),
        shared_inner=0,
        names=QWEN_STYLE,
        eos_token_ids=fields.token_ids("eos_token_id"),
    )  # fmt: skip
