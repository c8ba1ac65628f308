"""A router bias out of a safetensors file, and two of them compared. Pure.

A safetensors file is u64 little endian header length · JSON header · data; the base install of the
control plane has no library for it, and needs one FP32 matrix only.
"""

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controlplane.errors import InvalidInputError

TOP_EXPERTS = 5
MAX_HEADER_BYTES = 1024 * 1024
Bias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ExpertChange:
    """One expert's bias on either side."""

    expert: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class LayerChange:
    """How far one layer's bias moves: L2 and L∞ of the difference, and the experts that move most.

    `moved` counts experts whose bias differs at all.
    """

    layer: int
    l2: float
    largest: float
    moved: int
    top: tuple[ExpertChange, ...]


def read_bias(data: bytes) -> Bias:
    """The only matrix of the file, float32 [layers, experts].

    Raises:
        InvalidInputError: not a safetensors file with one FP32 matrix.
    """
    length = int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8 : 8 + min(length, MAX_HEADER_BYTES)])
        header.pop("__metadata__", None)
        ((_, tensor),) = header.items()
        ((layers, experts), (start, end)) = tensor["shape"], tensor["data_offsets"]
        dtype = {"F32": "<f4"}[tensor["dtype"]]
        values = np.frombuffer(data[8 + length :][start:end], dtype=dtype)
        return values.reshape(layers, experts).astype(np.float32)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(
            f"the stored bias is not a safetensors file with one FP32 matrix: {error}",
            field="bias_hash",
        ) from error


def compare(before: Bias, after: Bias) -> list[LayerChange]:
    """Per layer what would change.

    Raises:
        InvalidInputError: the two are of different models.
    """
    if before.shape != after.shape:
        raise InvalidInputError(
            f"the versions have shapes {before.shape} and {after.shape}: different models",
            field="bias_hash", value=list(after.shape), bound=list(before.shape),
        )  # fmt: skip
    difference = after.astype(np.float64) - before.astype(np.float64)
    return [
        LayerChange(
            layer=layer, l2=float(np.linalg.norm(row)), largest=float(np.abs(row).max(initial=0.0)),
            moved=int(np.count_nonzero(row)), top=_top(before[layer], after[layer], row),
        )
        for layer, row in enumerate(difference)
    ]  # fmt: skip


def _top(before: Bias, after: Bias, row: npt.NDArray[np.float64]) -> tuple[ExpertChange, ...]:
    order = np.argsort(-np.abs(row), kind="stable")[:TOP_EXPERTS]
    return tuple(
        ExpertChange(int(expert), float(before[expert]), float(after[expert]))
        for expert in order
        if row[expert] != 0
    )
