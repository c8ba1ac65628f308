"""FP8 E4M3 quantise and dequantise, 1 × 128 tiles."""

from kernels.fp8_quantise.reference import E4M3_MAX, TILE, dequantise, quantise

__all__ = ["E4M3_MAX", "TILE", "dequantise", "quantise"]
