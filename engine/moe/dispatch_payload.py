"""The bytes of a dispatch row: hidden state, gates, slots, so that one exchange carries all three.

Layout of a row of k assignments and width d: gates FP32 [k] · slots int32 [k] · hidden [d], the
hidden state native or as FP8 E4M3 with one FP32 scale per 128 values. Padded to 8 bytes.
"""

import torch
from torch import Tensor

from contract.runtime_config import DispatchDtype
from kernels.fp8_quantise import TILE, dequantise, quantise

ALIGNMENT = 8


def pack(hidden: Tensor, slots: Tensor, gates: Tensor, dtype: DispatchDtype) -> Tensor:
    """Rows as bytes, uint8 [n, B].

    Args:
        hidden: [n, d].
        slots: int64 [n, k], local to the receiver, -1 where it has nothing to do.
        gates: FP32 [n, k].
        dtype: of the hidden state on the wire.
    """
    parts = [_bytes(gates.float()), _bytes(slots.to(torch.int32))]
    if dtype is DispatchDtype.FP8_E4M3:
        values, scales = quantise(hidden)
        parts += [_bytes(scales), _bytes(values)]
    else:
        parts.append(_bytes(hidden))
    width = sum(part.shape[1] for part in parts)
    parts.append(parts[0].new_zeros(len(hidden), -width % ALIGNMENT))
    return torch.cat(parts, dim=1)


def unpack(
    rows: Tensor, width: int, top_k: int, dtype: torch.dtype, wire: DispatchDtype
) -> tuple[Tensor, Tensor, Tensor]:
    """The inverse of `pack`: hidden [n, width], slots int64 [n, k], gates FP32 [n, k]."""
    gates = _view(rows, 0, top_k, torch.float32)
    slots = _view(rows, 4 * top_k, top_k, torch.int32).long()
    start = 8 * top_k
    if wire is DispatchDtype.NATIVE:
        return _view(rows, start, width, dtype), slots, gates
    tiles = -(-width // TILE)
    scales = _view(rows, start, tiles, torch.float32)
    values = _view(rows, start + 4 * tiles, width, torch.float8_e4m3fn)
    return dequantise(values, scales, dtype), slots, gates


def _bytes(values: Tensor) -> Tensor:
    return values.contiguous().view(torch.uint8)


def _view(rows: Tensor, start: int, count: int, dtype: torch.dtype) -> Tensor:
    return rows[:, start : start + count * dtype.itemsize].view(dtype)
