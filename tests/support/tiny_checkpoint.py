"""A DeepSeek-V3-style checkpoint small enough for a test, with random weights."""

from pathlib import Path

import torch

from engine.model.training.export import write_checkpoint
from engine.model.training.network import Network
from engine.model.training.shape import Shape


def write_tiny_checkpoint(folder: Path) -> Path:
    """One dense and two MoE layers, 16 experts, top-4, byte-level vocabulary."""
    torch.manual_seed(0)
    shape = Shape(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=2,
        n_routed_experts=16,
        num_experts_per_tok=4,
        max_position_embeddings=512,
    )
    write_checkpoint(Network(shape), folder)
    return folder
