"""DeepSeek-V3: MLA, dense layers first, sigmoid gate with a selection bias, expert groups."""

from dataclasses import replace

from engine.model.families.fields import Fields
from engine.model.families.names import QWEN_STYLE, projections
from engine.model.families.rope import read_parameters, rotary_spec, yarn_mscale
from engine.model.spec import LayerSpec, MLASpec, ModelSpec, RopeType
from engine.moe.spec import MoESpec, RouterKind

_NAMES = replace(
    QWEN_STYLE, bias="mlp.gate.e_score_correction_bias", shared=projections("mlp.shared_experts")
)


def read(fields: Fields) -> ModelSpec:
    """Fields whose absence means DeepSeek-V3's own size in the layout keep that default here."""
    fields.must_be("hidden_act", "silu")
    fields.must_be("scoring_func", "sigmoid")
    fields.must_be("topk_method", "noaux_tc")
    fields.must_be("moe_layer_freq", 1)
    fields.must_be("quantization_config", None)
    # Extra prediction layers do not touch the main output; their tensors are left out.
    fields.whole("num_nextn_predict_layers", default=1, least=0)
    # Derived in the layout: MLA has one latent for all heads.
    for derived in ("num_key_value_heads", "head_dim", "qk_head_dim"):
        fields.get(derived, None)
    context = fields.whole("max_position_embeddings", default=4096)
    rope = read_parameters(fields, default_theta=10000.0)
    attention = _attention(fields, scale=_yarn_scale(rope))
    hidden = fields.whole("hidden_size", default=7168)
    width = fields.whole("moe_intermediate_size", default=2048)
    layers = fields.whole("num_hidden_layers", default=61)
    dense = fields.whole("first_k_dense_replace", default=3, least=0)
    return ModelSpec(
        family="deepseek_v3",
        vocabulary=fields.whole("vocab_size", default=129280),
        hidden=hidden,
        context=context,
        inner=fields.whole("intermediate_size", default=18432),
        norm_eps=fields.number("rms_norm_eps", 1e-6),
        qk_norm_eps=1e-6,
        tied=fields.flag("tie_word_embeddings", default=False),
        attention=attention,
        rotary=rotary_spec(
            rope, width=attention.rope_dim, context=context,
            interleaved=fields.flag("rope_interleave", default=True),
        ),
        layers=tuple(
            LayerSpec(moe_index=index - dense if index >= dense else None)
            for index in range(layers)
        ),
        moe=_moe(fields, hidden, width),
        shared_inner=width * fields.whole("n_shared_experts", default=1),
        names=_NAMES,
        eos_token_ids=fields.token_ids("eos_token_id"),
    )  # fmt: skip


def _yarn_scale(rope: dict[str, object]) -> float:
    """Factor on the softmax scale: mscale² of `mscale_all_dim` where positions are stretched."""
    all_dim, factor = rope.get("mscale_all_dim"), rope.get("factor")
    stretched = rope["rope_type"] != RopeType.DEFAULT.value
    if stretched and isinstance(all_dim, int | float) and isinstance(factor, int | float):
        return yarn_mscale(factor, all_dim) ** 2 if all_dim else 1.0
    return 1.0


def _attention(fields: Fields, scale: float) -> MLASpec:
    nope = fields.whole("qk_nope_head_dim", default=128)
    rope = fields.whole("qk_rope_head_dim", default=64)
    compressed = fields.get("q_lora_rank", 1536)
    return MLASpec(
        heads=fields.whole("num_attention_heads", default=128),
        q_lora_rank=None if compressed is None else fields.whole("q_lora_rank", default=1536),
        kv_lora_rank=fields.whole("kv_lora_rank", default=512),
        nope_dim=nope,
        rope_dim=rope,
        value_dim=fields.whole("v_head_dim", default=128),
        bias=fields.flag("attention_bias", default=False),
        softmax_scale=(nope + rope) ** -0.5 * scale,
    )


def _moe(fields: Fields, hidden: int, width: int) -> MoESpec:
    groups = fields.whole("n_group", default=8)
    return MoESpec(
        hidden=hidden,
        expert_width=width,
        num_experts=fields.whole("n_routed_experts", default=256),
        top_k=fields.whole("num_experts_per_tok", default=8),
        router=RouterKind.SIGMOID_BIAS if groups == 1 else RouterKind.GROUP_LIMITED,
        renormalise=fields.flag("norm_topk_prob", default=True),
        routed_scale=fields.number("routed_scaling_factor", 2.5),
        num_groups=groups,
        groups_kept=fields.whole("topk_group", default=4),
    )
