"""Rotary position embedding: frequencies by type, and the rotation."""

import math

import torch
from torch import Tensor

from engine.model.spec import RopeType, RotarySpec


def inverse_frequencies(spec: RotarySpec) -> Tensor:
    """Angle per position of each rotated pair, float32 [width / 2]."""
    exponents = torch.arange(0, spec.width, 2, dtype=torch.float32) / spec.width
    frequencies = 1.0 / (spec.theta**exponents)
    match spec.rope_type:
        case RopeType.DEFAULT:
            return frequencies
        case RopeType.LLAMA3:
            return _llama3(frequencies, spec)
        case RopeType.YARN:
            return _yarn(frequencies, spec)


def _llama3(frequencies: Tensor, spec: RotarySpec) -> Tensor:
    """Long waves are slowed by `factor`, short ones kept, others interpolated (Llama 3.1)."""
    turns = spec.original_context * frequencies / (2 * math.pi)
    span = spec.high_freq_factor - spec.low_freq_factor
    keep = ((turns - spec.low_freq_factor) / span).clamp(0, 1)
    return frequencies * (keep + (1 - keep) / spec.factor)


def _yarn(frequencies: Tensor, spec: RotarySpec) -> Tensor:
    """NTK-by-parts (YaRN, arXiv 2309.00071, eq. 18-23)."""

    def pair_at(turns: float) -> float:
        """Index of the pair that turns this often over the original context."""
        wave = spec.original_context / (turns * 2 * math.pi)
        return spec.width * math.log(wave) / (2 * math.log(spec.theta))

    low, high = pair_at(spec.beta_fast), pair_at(spec.beta_slow)
    if spec.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, spec.width - 1)
    pairs = torch.arange(spec.width // 2, dtype=torch.float32)
    stretch = ((pairs - low) / max(high - low, 1e-3)).clamp(0, 1)
    return frequencies * (stretch / spec.factor + (1 - stretch))


class RotaryTable:
    """Cosine + i·sine of every position of the context, complex64.

    Args:
        spec: what to compute.
        positions: length of the table, tokens.
        device: where it lives.
    """

    def __init__(self, spec: RotarySpec, positions: int, device: torch.device) -> None:
        steps = torch.arange(positions, dtype=torch.float32)
        angles = steps[:, None] * inverse_frequencies(spec)
        radius = torch.full_like(angles, spec.attention_factor)
        self._turns = torch.polar(radius, angles).to(device)

    def at(self, positions: Tensor) -> "Rotation":
        """The rotation of tokens at `positions`, int64 [T]."""
        return Rotation(self._turns.index_select(0, positions).unsqueeze(1))


class Rotation:
    """Turns complex64 [T, 1, width / 2] of one step's tokens, shared by all layers."""

    def __init__(self, turns: Tensor) -> None:
        self._turns = turns

    def turn_(self, x: Tensor) -> None:
        """Rotate x [T, H, width] in place, in FP32; pairs are neighbours (see `paired`)."""
        pairs = torch.unflatten(x, -1, (-1, 2))
        if x.dtype is torch.float32 and _is_complex(pairs):
            torch.view_as_complex(pairs).mul_(self._turns)
            return
        turned = torch.view_as_complex(pairs.float().contiguous()) * self._turns
        x.copy_(torch.view_as_real(turned).flatten(-2))


def paired(rows: Tensor, heads: int, spec: RotarySpec) -> Tensor:
    """Rows [heads · width, ...] of a projection so that the two of a rotated pair are neighbours.

    A checkpoint that is not interleaved pairs channel i with i + width / 2. The order itself does
    not matter: queries and keys are permuted alike, and only their dot product is used.
    """
    if spec.interleaved:
        return rows
    halves = rows.reshape(heads, 2, spec.width // 2, *rows.shape[1:])
    return halves.transpose(1, 2).reshape(rows.shape)


def _is_complex(pairs: Tensor) -> bool:
    """Whether neighbours can be seen as complex numbers where they lie."""
    *strides, _ = pairs.stride()
    return pairs.storage_offset() % 2 == 0 and all(stride % 2 == 0 for stride in strides)
