"""Seconds of the experts of one rank and layer: read the active weights, multiply the rows.

Decode is bound by weight reads: E·(1 - (1 - k/E)^T) experts are active. The rank with the most
rows and active experts decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from engine.simulation.cost.shape import ModelShape
from engine.simulation.cost.topology import Topology

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ExpertFit:
    """start + active weight bytes ÷ (memory rate × efficiency) + flops ÷ (peak × efficiency)."""

    start: float
    memory_efficiency: float
    compute_efficiency: float
    source: str = "fitted"


EXPERT_FITS: Mapping[str, ExpertFit] = MappingProxyType(
    {
        "masked": ExpertFit(1.680e-05, 0.7571, 0.8129),
        "contiguous": ExpertFit(3.547e-04, 4.638, 0.5164),
        "cutlass": ExpertFit(4.285e-05, 1.016, 0.3712),
    }
)
"""`masked`: SGLang wide-EP decode, H100. `contiguous`: SGLang wide-EP prefill, H100. `cutlass`:
TensorRT-LLM wide-EP, H200. FP8. An efficiency above 1 is a term that the fit did not need.
Fitted by `trimtab bench cost-model`."""


def active_experts(held: float, rows: float) -> float:
    """Mean number of `held` experts that get at least one of `rows` rows, spread evenly."""
    if held <= 0 or rows <= 0:
        return 0.0
    return float(held * (1.0 - (1.0 - 1.0 / max(held, 1.0)) ** rows))


def expert_flops(shape: ModelShape) -> float:
    """Operations of one row through one expert: three matrices, multiply and add."""
    return 6.0 * shape.hidden * shape.expert_size


def expert_seconds(
    rows: Floats, active: Floats, shape: ModelShape, where: Topology, kernel: str = "masked"
) -> Floats:
    """Grouped GEMM of one rank, one value a layer.

    Args:
        rows: assignments that the rank computes, [L] or a scalar array.
        active: its experts with at least one row, the same shape.
        shape: the model.
        where: rates.
        kernel: a key of `EXPERT_FITS`.
    """
    fit = EXPERT_FITS[kernel]
    peak = where.fp8_rate if shape.weight_bytes <= 1 else where.bf16_rate
    reading = active * shape.expert_bytes / (where.memory_rate * fit.memory_efficiency)
    computing = rows * expert_flops(shape) / (peak * fit.compute_efficiency)
    return np.where(rows > 0, fit.start + reading + computing, 0.0)
