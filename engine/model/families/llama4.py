"""Llama-4 text: sigmoid top-1 and a shared expert, layers without positions, chunked attention."""

from engine.errors import CheckpointError
from engine.model.families.fields import Fields
from engine.model.families.gqa_model import read_attention, read_sizes
from engine.model.families.names import projections
from engine.model.families.rope import read_parameters, rotary_spec
from engine.model.spec import LayerSpec, ModelSpec, QKNorm, TemperatureTuning, TensorNames
from engine.moe.spec import MoESpec, RouterKind

_NAMES = TensorNames(
    dense=projections("feed_forward"),
    router="feed_forward.router.weight",
    bias=None,
    expert=projections("feed_forward.experts.{}"),
    packed=("feed_forward.experts.gate_up_proj", "feed_forward.experts.down_proj"),
    packed_input_first=True,
    shared=projections("feed_forward.shared_expert"),
)


def read(fields: Fields) -> ModelSpec:
    """Read a Llama-4 text config."""
    sizes = read_sizes(fields, context=131072, norm_eps=1e-5)
    normed = fields.flag("use_qk_norm", default=True)
    attention = read_attention(
        fields, sizes.hidden, qk_norm=QKNorm.AFTER_ROTARY if normed else QKNorm.NONE
    )
    width = fields.whole("intermediate_size", default=8192)
    tuned = fields.flag("attn_temperature_tuning", default=True)
    tuning = TemperatureTuning(
        floor_scale=fields.number("floor_scale", 8192), scale=fields.number("attn_scale", 0.1)
    )
    return ModelSpec(
        family="llama4_text",
        vocabulary=sizes.vocabulary,
        hidden=sizes.hidden,
        context=sizes.context,
        inner=fields.whole("intermediate_size_mlp", default=16384),
        norm_eps=sizes.norm_eps,
        qk_norm_eps=sizes.norm_eps,
        tied=sizes.tied,
        attention=attention,
        rotary=rotary_spec(
            read_parameters(fields, default_theta=5e5), width=attention.head_dim,
            interleaved=True, context=sizes.context,
        ),
        layers=_layers(fields, sizes.layers),
        moe=MoESpec(
            hidden=sizes.hidden,
            expert_width=width,
            num_experts=fields.whole("num_local_experts", default=16),
            top_k=fields.whole("num_experts_per_tok", default=1),
            router=RouterKind.SIGMOID_TOP1,
            renormalise=False,
            gate_on_input=True,
        ),
        shared_inner=width,
        names=_NAMES,
        temperature_tuning=tuning if tuned else None,
        eos_token_ids=fields.token_ids("eos_token_id"),
    )  # fmt: skip


def _layers(fields: Fields, count: int) -> tuple[LayerSpec, ...]:
    step = fields.whole("interleave_moe_layer_step", default=1)
    listed = fields.get("moe_layers", None)
    routed = list(range(step - 1, count, step)) if listed is None else sorted(listed)
    interval = fields.whole("no_rope_layer_interval", default=4)
    given = fields.get("no_rope_layers", None)
    rotary = [bool(flag) for flag in given or [(i + 1) % interval for i in range(count)]]
    chunk = fields.optional_whole("attention_chunk_size")
    kinds = fields.get("layer_types", None)
    if kinds is None:
        kinds = ["chunked_attention" if turned and chunk else "full_attention" for turned in rotary]
    for name, values in (("no_rope_layers", rotary), ("layer_types", kinds)):
        if len(values) < count:
            raise CheckpointError(
                f"config field {name} lists {len(values)} layers of {count}",
                field=name, value=len(values), bound=count,
            )  # fmt: skip
    return tuple(
        LayerSpec(
            moe_index=routed.index(index) if index in routed else None,
            rotary=rotary[index],
            chunk=chunk if kinds[index] == "chunked_attention" else None,
        )
        for index in range(count)
    )
