"""The shape of the reference checkpoint, by the field names of the `deepseek_v3` layout."""

from dataclasses import dataclass
from typing import Any

NUM_BYTES = 256
BOS, EOS, PAD = 256, 257, 258


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a small DeepSeek-V3: MLA, dense layers first, then sigmoid-gated MoE layers."""

    vocab_size: int = NUM_BYTES + 3
    hidden_size: int = 96
    intermediate_size: int = 288
    moe_intermediate_size: int = 16
    num_hidden_layers: int = 4
    first_k_dense_replace: int = 1
    num_attention_heads: int = 3
    kv_lora_rank: int = 32
    qk_nope_head_dim: int = 16
    qk_rope_head_dim: int = 16
    v_head_dim: int = 32
    n_routed_experts: int = 128
    n_shared_experts: int = 1
    num_experts_per_tok: int = 8
    routed_scaling_factor: float = 2.5
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0

    @property
    def num_moe_layers(self) -> int:
        """Layers with routed experts."""
        return self.num_hidden_layers - self.first_k_dense_replace

    def config_json(self) -> dict[str, Any]:
        """The `config.json`. Every field whose omission means DeepSeek-V3's own size is written."""
        sizes = {name: getattr(self, name) for name in self.__slots__ if name != "rope_theta"}
        return {
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "deepseek_v3",
            **sizes,
            "num_key_value_heads": self.num_attention_heads,
            "q_lora_rank": None,
            "n_group": 1,
            "topk_group": 1,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "norm_topk_prob": True,
            "num_nextn_predict_layers": 0,
            "hidden_act": "silu",
            "attention_bias": False,
            "attention_dropout": 0.0,
            "tie_word_embeddings": False,
            "rope_interleave": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "bos_token_id": BOS,
            "eos_token_id": EOS,
            "pad_token_id": PAD,
            "dtype": "float32",
        }
