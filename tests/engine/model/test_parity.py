"""Every family agrees with `transformers` on small random checkpoints."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.support.models import Served, save_small

PROMPT_TOKENS = 45
NEW_TOKENS = 32


@dataclass(frozen=True)
class Case:
    """One family with the variant that it covers."""

    name: str
    model: str
    config: str
    fields: dict[str, Any]


SMALL = {
    "vocab_size": 131, "hidden_size": 36, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 256, "initializer_range": 0.2,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip
MLA = {
    "kv_lora_rank": 10, "qk_nope_head_dim": 7, "qk_rope_head_dim": 6, "v_head_dim": 9,
    "num_key_value_heads": 4, "intermediate_size": 50, "moe_intermediate_size": 11,
    "n_routed_experts": 12, "n_shared_experts": 1, "num_experts_per_tok": 3,
    "first_k_dense_replace": 1,
}  # fmt: skip
YARN = {
    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "mscale": 1.0,
    "mscale_all_dim": 0.8, "beta_fast": 32, "beta_slow": 1,
    "original_max_position_embeddings": 32,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 32,
}  # fmt: skip
CASES = (
    Case("deepseek_v3_plain", "DeepseekV3ForCausalLM", "DeepseekV3Config", {
        **MLA, "q_lora_rank": None, "n_group": 1, "topk_group": 1,
    }),
    Case("deepseek_v3_groups", "DeepseekV3ForCausalLM", "DeepseekV3Config", {
        **MLA, "q_lora_rank": 14, "n_group": 4, "topk_group": 2, "n_shared_experts": 2,
        "attention_bias": True, "rope_parameters": YARN, "norm_topk_prob": False,
    }),
    Case("deepseek_v3_half_rotation", "DeepseekV3ForCausalLM", "DeepseekV3Config", {
        **MLA, "q_lora_rank": 14, "n_group": 1, "topk_group": 1, "rope_interleave": False,
        "rms_norm_eps": 1e-3, "tie_word_embeddings": True,
    }),
    Case("mixtral", "MixtralForCausalLM", "MixtralConfig", {
        "hidden_size": 40, "num_key_value_heads": 2, "intermediate_size": 22,
        "num_local_experts": 5, "num_experts_per_tok": 2,
    }),
    Case("mixtral_window", "MixtralForCausalLM", "MixtralConfig", {
        "num_key_value_heads": 1, "intermediate_size": 22, "num_local_experts": 5,
        "num_experts_per_tok": 2, "sliding_window": 13, "head_dim": 10,
    }),
    Case("qwen3_moe", "Qwen3MoeForCausalLM", "Qwen3MoeConfig", {
        "num_key_value_heads": 2, "head_dim": 14, "intermediate_size": 40,
        "moe_intermediate_size": 13, "num_experts": 9, "num_experts_per_tok": 4,
        "norm_topk_prob": True, "mlp_only_layers": [1],
    }),
    Case("qwen3_moe_sparse_step", "Qwen3MoeForCausalLM", "Qwen3MoeConfig", {
        "num_key_value_heads": 4, "head_dim": 14, "intermediate_size": 40,
        "moe_intermediate_size": 13, "num_experts": 9, "num_experts_per_tok": 4,
        "norm_topk_prob": False, "decoder_sparse_step": 2, "attention_bias": True,
    }),
    Case("olmoe", "OlmoeForCausalLM", "OlmoeConfig", {
        "hidden_size": 40, "num_key_value_heads": 2, "intermediate_size": 15, "num_experts": 7,
        "num_experts_per_tok": 3, "clip_qkv": 0.5,
    }),
    Case("llama4", "Llama4ForCausalLM", "Llama4TextConfig", {
        "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 21,
        "intermediate_size_mlp": 33, "num_local_experts": 6, "interleave_moe_layer_step": 2,
        "no_rope_layers": [1, 0, 1], "attention_chunk_size": 16, "floor_scale": 12,
        "rope_parameters": LLAMA3,
    }),
    Case("llama4_every_layer", "Llama4ForCausalLM", "Llama4TextConfig", {
        "num_key_value_heads": 4, "head_dim": 10, "intermediate_size": 21,
        "intermediate_size_mlp": 33, "num_local_experts": 6, "interleave_moe_layer_step": 1,
        "no_rope_layers": [1, 1, 0], "attention_chunk_size": 16, "use_qk_norm": False,
        "attn_temperature_tuning": False,
    }),
)  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_logits_and_greedy_tokens_agree_with_transformers(
    case: Case, seed: int, tmp_path: Path
) -> None:
    config = getattr(transformers, case.config)(
        **{**SMALL, **case.fields}, attn_implementation="eager", experts_implementation="eager"
    )
    model = save_small(getattr(transformers, case.model), config, tmp_path, seed)
    served = Served.load(tmp_path)
    prompts = torch.randint(
        0, 131, (2, PROMPT_TOKENS), generator=torch.Generator().manual_seed(seed)
    )
    with torch.no_grad():
        expected = model(prompts[:1]).logits[0]
    torch.testing.assert_close(served.logits(prompts[0].tolist()), expected, atol=1e-4, rtol=0)

    with torch.no_grad():
        wanted = [_greedy(model, prompt.tolist()) for prompt in (prompts[0], prompts[1][:19])]
    given = [prompts[0].tolist(), prompts[1][:19].tolist()]
    assert served.generate(given, max_tokens=NEW_TOKENS, chunk_size=16) == wanted


def _greedy(model: Any, prompt: list[int]) -> list[int]:
    """Recompute everything for each token: no cache of either side is trusted."""
    tokens = list(prompt)
    for _ in range(NEW_TOKENS):
        tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[len(prompt) :]
