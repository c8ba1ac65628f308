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
    """Cosine and sine of every position of the context, rotated in FP32.

    Args:
        spec: what to compute.
        positions: length of the table, tokens.
        device: where it lives.
    """

    def __init__(self, spec: RotarySpec, positions: int, device: torch.device) -> None:
        self._interleaved = spec.interleaved
        steps = torch.arange(positions, dtype=torch.float32)
        angles = steps[:, None] * inverse_frequencies(spec)
        self._cos = (angles.cos() * spec.attention_factor).to(device)
        self._sin = (angles.sin() * spec.attention_factor).to(device)

    def at(self, positions: Tensor) -> "Rotation":
        """The rotation of tokens at `positions`, int64 [T]."""
        cos = self._cos.index_select(0, positions).unsqueeze(1)
        sin = self._sin.index_select(0, positions).unsqueeze(1)
        return Rotation(cos, sin, interleaved=self._interleaved)


class Rotation:
    """Cosine and sine [T, 1, width / 2] of one step's tokens, shared by all layers."""

    def __init__(self, cos: Tensor, sin: Tensor, *, interleaved: bool) -> None:
        self._cos = cos
        self._sin = sin
        self._interleaved = interleaved

    def apply(self, x: Tensor) -> Tensor:
        """Rotate x [T, H, width]; interleaved pairs come out de-interleaved.

        Their order does not matter: queries and keys are permuted alike, and only their dot product
        is used.
        """
        if self._interleaved:
            first, second = x[..., 0::2], x[..., 1::2]
        else:
            first, second = x.chunk(2, dim=-1)
        rotated = torch.cat(
            (first * self._cos - second * self._sin, second * self._cos + first * self._sin), dim=-1
        )
        return rotated.to(x.dtype)
