"""Mixtral: softmax top-k of eight large experts, renormalised, every layer."""

from engine.model.families.fields import Fields
from engine.model.families.gqa_model import read_attention, read_sizes
from engine.model.families.names import projections
from engine.model.families.rope import read_parameters, rotary_spec
from engine.model.spec import LayerSpec, ModelSpec, TensorNames
from engine.moe.spec import MoESpec, RouterKind

_EXPERT = "block_sparse_moe.experts.{}"
_NAMES = TensorNames(
    dense=projections("mlp"),
    router="block_sparse_moe.gate.weight",
    bias=None,
    expert=(f"{_EXPERT}.w1.weight", f"{_EXPERT}.w3.weight", f"{_EXPERT}.w2.weight"),
    packed=None,
    packed_input_first=False,
    shared=None,
)


def read(fields: Fields) -> ModelSpec:
    """Read a Mixtral config."""
    sizes = read_sizes(fields, context=131072, norm_eps=1e-5)
    attention = read_attention(fields, sizes.hidden, window=fields.optional_whole("sliding_window"))
    inner = fields.whole("intermediate_size")
    return ModelSpec(
        family="mixtral",
        vocabulary=sizes.vocabulary,
        hidden=sizes.hidden,
        context=sizes.context,
        inner=inner,
        norm_eps=sizes.norm_eps,
        qk_norm_eps=sizes.norm_eps,
        tied=sizes.tied,
        attention=attention,
        rotary=rotary_spec(
            read_parameters(fields, default_theta=1e6), width=attention.head_dim,
            interleaved=False, context=sizes.context,
        ),
        layers=tuple(LayerSpec(moe_index=index) for index in range(sizes.layers)),
        moe=MoESpec(
            hidden=sizes.hidden,
            expert_width=inner,
            num_experts=fields.whole("num_local_experts", default=8),
            top_k=fields.whole("num_experts_per_tok", default=2),
            router=RouterKind.SOFTMAX,
            renormalise=True,
        ),
        shared_inner=0,
        names=_NAMES,
        eos_token_ids=fields.token_ids("eos_token_id"),
    )  # fmt: skip
