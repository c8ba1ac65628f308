"""FP8 E4M3 quantisation in tiles of 1 × 128 with FP32 scales, in plain torch."""

import torch
from torch import Tensor

TILE = 128
E4M3_MAX = 448.0
"""Largest finite value of E4M3."""


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise rows in tiles of 128 values.

    Args:
        x: [n, d], any float dtype; the last tile of a row may be short.

    Returns:
        values float8_e4m3fn [n, d], and scales FP32 [n, ⌈d/128⌉] with x ≈ values · scale; the scale
        of a tile is its largest magnitude / 448, and 1 for a tile of zeros.
    """
    n, width = x.shape
    tiles = -(-width // TILE)
    padded = torch.nn.functional.pad(x.float(), (0, tiles * TILE - width)).view(n, tiles, TILE)
    largest = padded.abs().amax(dim=-1)
    scales = torch.where(largest > 0, largest / E4M3_MAX, torch.ones_like(largest))
    values = (padded / scales.unsqueeze(-1)).clamp(-E4M3_MAX, E4M3_MAX)
    return values.flatten(1)[:, :width].to(torch.float8_e4m3fn), scales


def dequantise(values: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """The rows again, [n, d] in `dtype`, from values [n, d] and scales FP32 [n, ⌈d/128⌉]."""
    n, width = values.shape
    spread = scales.repeat_interleave(TILE, dim=1)[:, :width]
    return (values.float() * spread).to(dtype).view(n, width)
