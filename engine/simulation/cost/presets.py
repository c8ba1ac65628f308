"""Shapes of public models, from their published configurations.

Sources: arXiv 2412.19437 § 4.2 (DeepSeek-V3); the Qwen3 report § 2; config.json of the Mixtral,
Llama-4 and OLMoE checkpoints. DeepSeek-V3 is served in FP8 (one byte a weight), the rest in BF16.
"""

from collections.abc import Mapping
from types import MappingProxyType

from engine.errors import BadRequestError
from engine.simulation.cost.shape import Attention, ModelShape

PRESETS: Mapping[str, ModelShape] = MappingProxyType(
    {
        shape.name: shape
        for shape in (
            ModelShape(
                name="deepseek-v3", layers=61, moe_layers=58, hidden=7168, expert_size=2048,
                experts=256, top_k=8, shared_size=2048, dense_size=18432, vocabulary=129280,
                attention=Attention(128, 128, 128, q_rank=1536, kv_rank=512, rope_dim=64,
                                    value_dim=128),
                weight_bytes=1.0, router_groups=8, groups_per_token=4, has_bias=True,
            ),
            ModelShape(
                name="qwen3-30b-a3b", layers=48, moe_layers=48, hidden=2048, expert_size=768,
                experts=128, top_k=8, vocabulary=151936, attention=Attention(32, 4, 128),
            ),
            ModelShape(
                name="qwen3-235b-a22b", layers=94, moe_layers=94, hidden=4096, expert_size=1536,
                experts=128, top_k=8, vocabulary=151936, attention=Attention(64, 4, 128),
            ),
            ModelShape(
                name="mixtral-8x7b", layers=32, moe_layers=32, hidden=4096, expert_size=14336,
                experts=8, top_k=2, vocabulary=32000, attention=Attention(32, 8, 128),
            ),
            ModelShape(
                name="llama-4-scout", layers=48, moe_layers=48, hidden=5120, expert_size=8192,
                experts=16, top_k=1, shared_size=8192, vocabulary=202048,
                attention=Attention(40, 8, 128),
            ),
            ModelShape(
                name="llama-4-maverick", layers=48, moe_layers=24, hidden=5120, expert_size=8192,
                experts=128, top_k=1, shared_size=8192, dense_size=16384, vocabulary=202048,
                attention=Attention(40, 8, 128),
            ),
            ModelShape(
                name="olmoe", layers=16, moe_layers=16, hidden=2048, expert_size=1024, experts=64,
                top_k=8, vocabulary=50304, attention=Attention(16, 16, 128),
            ),
        )
    }
)  # fmt: skip


def preset(name: str) -> ModelShape:
    """A model by name.

    Raises:
        BadRequestError: there is no such preset.
    """
    shape = PRESETS.get(name)
    if shape is None:
        raise BadRequestError(
            f"preset {name!r} is unknown; known: {', '.join(PRESETS)}", field="preset", value=name
        )
    return shape
