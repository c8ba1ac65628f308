"""Published configs read to the sizes that their papers state."""

import pytest

from engine.errors import CheckpointError
from engine.model.families.registry import READERS, read_spec
from engine.model.spec import GQASpec, MLASpec, QKNorm, RopeType
from engine.moe.spec import RouterKind

DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "attention_bias": False, "aux_loss_alpha": 0.001,
    "bos_token_id": 0, "eos_token_id": 1, "ep_size": 1, "first_k_dense_replace": 3,
    "hidden_act": "silu", "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
    "max_position_embeddings": 163840, "moe_intermediate_size": 2048, "moe_layer_freq": 1,
    "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": True,
    "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
    "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_theta": 10000,
    "rope_scaling": {
        "beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096, "type": "yarn",
    },
    "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "seq_aux": True,
    "tie_word_embeddings": False, "topk_group": 4, "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16", "transformers_version": "4.33.1", "use_cache": True,
    "v_head_dim": 128, "vocab_size": 129280,
}  # fmt: skip
QWEN3_30B = {
    "model_type": "qwen3_moe", "attention_bias": False, "attention_dropout": 0.0,
    "decoder_sparse_step": 1, "eos_token_id": [151645, 151643], "head_dim": 128,
    "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144,
    "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
    "moe_intermediate_size": 768, "norm_topk_prob": True, "num_attention_heads": 32,
    "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
    "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_scaling": None,
    "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": None,
    "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip


def test_deepseek_v3() -> None:
    spec = read_spec(DEEPSEEK_V3)
    assert isinstance(spec.attention, MLASpec)
    assert (spec.attention.q_lora_rank, spec.attention.kv_lora_rank) == (1536, 512)
    # mscale(40)² on 1/√192, DeepSeek's published softmax scale.
    assert spec.attention.softmax_scale == pytest.approx(192**-0.5 * 1.3689**2, rel=1e-3)
    assert spec.rotary.rope_type is RopeType.YARN
    assert spec.rotary.attention_factor == pytest.approx(1.0)
    assert spec.num_moe_layers == 58
    assert spec.moe.router is RouterKind.GROUP_LIMITED
    assert (spec.moe.num_groups, spec.moe.groups_kept) == (8, 4)
    assert spec.eos_token_ids == (1,)


def test_qwen3_moe() -> None:
    spec = read_spec(QWEN3_30B)
    assert isinstance(spec.attention, GQASpec)
    assert spec.attention.qk_norm is QKNorm.HEAD
    assert (spec.attention.kv_heads, spec.attention.window) == (4, None)
    assert spec.num_moe_layers == 48
    assert spec.rotary.theta == 1e6
    assert spec.eos_token_ids == (151645, 151643)


def test_the_published_fp8_weights_are_refused_by_name() -> None:
    with pytest.raises(CheckpointError) as caught:
        read_spec({**DEEPSEEK_V3, "quantization_config": {"quant_method": "fp8"}})
    assert caught.value.field == "quantization_config"


@pytest.mark.parametrize("family", sorted(READERS))
def test_a_config_without_sizes_names_what_it_lacks(family: str) -> None:
    if family == "deepseek_v3":
        assert read_spec({"model_type": family}).moe.num_experts == 256
        return
    with pytest.raises(CheckpointError) as caught:
        read_spec({"model_type": family})
    assert caught.value.field == "vocab_size"
    assert "None" in caught.value.detail


def test_heads_of_odd_width_cannot_be_rotated() -> None:
    with pytest.raises(CheckpointError, match="rotation needs pairs"):
        read_spec({**QWEN3_30B, "head_dim": 127})
