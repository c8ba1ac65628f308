"""What a checkpoint may not be: every refusal names the tensor or the field."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

from engine.config import REFERENCE_CHECKPOINT
from engine.errors import CheckpointError
from engine.model.checkpoint.load import load_experts, load_model, local_experts, read_facts
from engine.parallel.groups import LocalGroup
from tests.support.models import CPU, Served, save_small

CONFIG = DeepseekV3Config(
    vocab_size=40, hidden_size=24, intermediate_size=20, moe_intermediate_size=8,
    num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, kv_lora_rank=8,
    q_lora_rank=None, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=6, n_routed_experts=4,
    num_experts_per_tok=2, n_group=1, topk_group=1, first_k_dense_replace=1,
    max_position_embeddings=64,
)  # fmt: skip
EXPERT = "model.layers.1.mlp.experts.2.up_proj.weight"
BIAS = "model.layers.1.mlp.gate.e_score_correction_bias"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_small(DeepseekV3ForCausalLM, CONFIG, tmp_path, seed=0)
    return tmp_path


def edit(folder: Path, **tensors: torch.Tensor | None) -> None:
    """Replace, add or (None) remove tensors; underscores of the key stand for nothing else."""
    path = folder / "model.safetensors"
    held: dict[str, Any] = load_file(path)
    for name, tensor in tensors.items():
        held.pop(name, None)
        if tensor is not None:
            held[name] = tensor
    save_file(held, path)


def configure(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def refusal(folder: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as caught:
        load_model(folder, group=LocalGroup(), device=CPU, dtype=torch.float32)
    return caught.value


@pytest.mark.parametrize("name", [EXPERT, BIAS, "model.norm.weight"])
def test_a_missing_tensor_is_named(folder: Path, name: str) -> None:
    edit(folder, **{name: None})
    error = refusal(folder)
    assert error.field == name
    assert "missing" in error.detail


def test_an_extra_tensor_is_named(folder: Path) -> None:
    edit(folder, **{"model.layers.0.mlp.extra": torch.zeros(1)})
    assert refusal(folder).field == "model.layers.0.mlp.extra"


def test_a_wrong_shape_is_named_with_both_shapes(folder: Path) -> None:
    edit(folder, **{EXPERT: torch.zeros(8, 23)})
    error = refusal(folder)
    assert (error.field, error.value, error.bound) == (EXPERT, [8, 23], [8, 24])


def test_a_wrong_expert_of_another_rank_is_refused_too(folder: Path) -> None:
    class SecondOfTwo(LocalGroup):
        rank = 0
        size = 2

    edit(folder, **{"model.layers.1.mlp.experts.3.up_proj.weight": torch.zeros(1, 1)})
    with pytest.raises(CheckpointError, match=r"experts\.3\.up_proj"):
        load_model(folder, group=SecondOfTwo(), device=CPU, dtype=torch.float32)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attention_sink_tokens", 4),
        ("hidden_act", "gelu"),
        ("scoring_func", "softmax"),
        ("model_type", "gpt2"),
        ("num_hidden_layers", "2"),
        ("num_hidden_layers", 0),
        ("norm_topk_prob", "yes"),
        ("quantization_config", {"quant_method": "fp8"}),
        ("routed_scaling_factor", "big"),
    ],
)
def test_a_field_that_is_not_honoured_is_named(folder: Path, field: str, value: Any) -> None:
    configure(folder, **{field: value})
    error = refusal(folder)
    assert error.field == field
    assert error.value == value


@pytest.mark.parametrize(
    ("rope", "field"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, "rope_parameters.rope_type"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5},
         "rope_parameters.partial_rotary_factor"),
    ],
)  # fmt: skip
def test_a_rope_that_is_not_honoured_is_named(
    folder: Path, rope: dict[str, Any], field: str
) -> None:
    configure(folder, rope_parameters={"rope_theta": 1e4, **rope})
    assert refusal(folder).field == field


def test_a_folder_without_config_or_tensors_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert "neither" in refusal(folder).detail
    (folder / "config.json").write_text("[")
    assert "not JSON" in refusal(folder).detail
    (folder / "config.json").unlink()
    assert "absent" in refusal(folder).detail


def test_a_torn_tensor_file_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    assert "cannot be read" in refusal(folder).detail


def test_shards_load_like_one_file(folder: Path, tmp_path: Path) -> None:
    expected = Served.load(folder).logits(list(range(20)))
    shard(folder)
    torch.testing.assert_close(Served.load(folder).logits(list(range(20))), expected)


def test_an_index_that_points_outside_its_folder_is_refused(folder: Path) -> None:
    shard(folder)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"model.norm.weight": "../one.safetensors"}}))
    assert refusal(folder).field == "weight_map"


def test_packed_experts_load_like_single_ones(folder: Path) -> None:
    expected = Served.load(folder).logits(list(range(20)))
    held = load_file(folder / "model.safetensors")
    stem = "model.layers.1.mlp.experts"
    names = {
        kind: [f"{stem}.{expert}.{kind}_proj.weight" for expert in range(4)]
        for kind in ("gate", "up", "down")
    }
    gate_up = torch.stack(
        [torch.cat((held[g], held[u])) for g, u in zip(names["gate"], names["up"], strict=True)]
    )
    packed = {
        f"{stem}.gate_up_proj": gate_up,
        f"{stem}.down_proj": torch.stack([held[name] for name in names["down"]]),
    }
    singles = dict.fromkeys(name for each in names.values() for name in each)
    edit(folder, **singles, **packed)
    torch.testing.assert_close(Served.load(folder).logits(list(range(20))), expected)


def shard(folder: Path) -> None:
    held = load_file(folder / "model.safetensors")
    names = sorted(held)
    weight_map: dict[str, str] = {}
    for number, part in enumerate((names[::2], names[1::2])):
        file = f"model-{number}.safetensors"
        save_file({name: held[name] for name in part}, folder / file)
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


class Rank1of2(LocalGroup):
    """The second of two ranks; loading makes no collective."""

    rank = 1
    size = 2


def test_a_rank_holds_only_the_experts_of_its_slots(folder: Path) -> None:
    whole = load_model(folder, group=LocalGroup(), device=CPU, dtype=torch.float32)
    half = load_model(folder, group=Rank1of2(), device=CPU, dtype=torch.float32)
    torch.testing.assert_close(
        half.moe_layers[0].weights.gate_up, whole.moe_layers[0].weights.gate_up[2:]
    )
    placement = np.array([[3, 0, 2, 1, 0, 3]])
    (moved,) = load_experts(
        folder, group=Rank1of2(), device=CPU, dtype=torch.float32, placement=placement
    )
    torch.testing.assert_close(moved.down, whole.moe_layers[0].weights.down[[1, 0, 3]])


def test_slots_that_do_not_divide_over_the_ranks_are_refused(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="evenly over 3 ranks"):
        local_experts(read_facts(folder).spec, None, 0, 3)


def test_facts_name_the_experts_and_carry_the_bias_in_fp32(folder: Path) -> None:
    facts = read_facts(folder)
    held = load_file(folder / "model.safetensors")
    assert facts.bias is not None
    assert facts.bias.dtype == np.float32
    np.testing.assert_array_equal(facts.bias[0], held[BIAS].numpy())
    assert (facts.spec.num_moe_layers, facts.spec.moe.num_experts) == (1, 4)
    other = held["model.layers.1.mlp.gate.weight"] + 1
    before = facts.expert_set_hash
    edit(folder, **{"model.layers.1.mlp.gate.weight": other})
    assert read_facts(folder).expert_set_hash != before
    edit(folder, **{BIAS: held[BIAS] + 1})
    assert read_facts(folder).expert_set_hash != before


def test_the_expert_set_of_the_reference_does_not_depend_on_its_bias(tmp_path: Path) -> None:
    facts = read_facts(REFERENCE_CHECKPOINT)
    assert len(facts.expert_set_hash) == 64
    held = load_file(REFERENCE_CHECKPOINT / "model.safetensors")
    for name in held:
        if name.endswith("correction_bias"):
            held[name] = held[name] * 0
    save_file(held, tmp_path / "model.safetensors")
    config = (REFERENCE_CHECKPOINT / "config.json").read_text()
    (tmp_path / "config.json").write_text(config)
    assert read_facts(tmp_path).expert_set_hash == facts.expert_set_hash
