"""Shapes weigh what their publishers say."""

import pytest

from engine.errors import BadRequestError
from engine.simulation.cost.presets import PRESETS, preset


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [
        ("deepseek-v3", 671, 37), ("qwen3-30b-a3b", 30.5, 3.3), ("qwen3-235b-a22b", 235, 22),
        ("mixtral-8x7b", 46.7, 12.9), ("llama-4-scout", 109, 17), ("llama-4-maverick", 400, 17),
        ("olmoe", 6.9, 1.3),
    ],
)  # fmt: skip
def test_parameters_match_the_published_counts(name, total, active):
    shape = preset(name)
    assert shape.parameters / 1e9 == pytest.approx(total, rel=0.02)
    assert shape.active_parameters / 1e9 == pytest.approx(active, rel=0.03)


def test_experts_and_top_k_are_those_of_the_checkpoints():
    found = {name: (shape.experts, shape.top_k) for name, shape in PRESETS.items()}
    assert found["deepseek-v3"] == (256, 8)
    assert found["llama-4-scout"] == (16, 1)
    assert found["llama-4-maverick"] == (128, 1)
    assert found["mixtral-8x7b"] == (8, 2)


def test_routed_experts_of_deepseek_v3_weigh_654_gb_and_one_expert_44_mb():
    shape = preset("deepseek-v3")
    assert shape.routed_bytes / 1e9 == pytest.approx(654, abs=1)
    assert shape.expert_bytes / 1e6 == pytest.approx(44, abs=0.1)


def test_the_latent_cache_of_deepseek_v3_is_about_70_kb_a_token():
    assert preset("deepseek-v3").kv_bytes() == pytest.approx(61 * 576 * 2)


def test_an_unknown_preset_names_the_known_ones():
    with pytest.raises(BadRequestError, match=r"gpt-5.*known: deepseek-v3"):
        preset("gpt-5")
