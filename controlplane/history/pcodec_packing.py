"""Reading arrays that chunks of before December 2026 hold, packed with pcodec. Nothing writes them.

- `planes`: byte planes of the whole array.
- `pco`: pcodec on the values, time as the last axis.
- `share`: pcodec on residuals against running shares (`share_residual`), block by block of rows.
  A block's parts: its used rows as bits, their first frame, their totals, their residuals with the
  series ordered by the first frame.
"""

import math
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pcodec import standalone

from controlplane.history.planes import Values, unpack_planes
from controlplane.history.share_residual import restore

_BLOCK_VALUES = 262_144
_GROUP_VALUES = 65_536
_LENGTH = struct.Struct("<I")


def unpack(codec: str, data: bytes, shape: Sequence[int]) -> Values:
    """The values [T, …] of an array.

    Raises:
        ValueError: unknown codec, or bytes that do not fit the shape.
    """
    match codec:
        case "planes":
            return unpack_planes(data, shape)
        case "pco":
            moved = _unpco(data, np.dtype(np.int32)).reshape((*shape[1:], shape[0]))
            return np.moveaxis(moved, -1, 0).astype(np.uint64)
        case "share":
            return _unpack_share(data, shape)
        case _:
            raise ValueError(f"unknown codec {codec!r}")


def _unpack_share(data: bytes, shape: Sequence[int]) -> Values:
    frames, columns = shape[0], shape[-1]
    all_rows = math.prod(shape[1:-1])
    values = np.zeros((frames, all_rows, columns), dtype=np.uint64)
    parts = iter(_parts(data))
    step = _block_rows(frames, columns)
    for start in range(0, all_rows, step):
        size = min(step, all_rows - start)
        bits = np.frombuffer(next(parts), np.uint8)
        used = np.unpackbits(bits, count=size).astype(bool)
        rows = int(used.sum())
        first = unpack_planes(next(parts), (rows, columns)).astype(np.int64)
        totals = unpack_planes(next(parts), (frames, rows)).astype(np.int64)
        groups = _groups(rows * columns * (frames - 1))
        series = np.concatenate([_unpco(next(parts), np.dtype(np.int32)) for _ in range(groups)])
        residual = np.empty((rows * columns, frames - 1), dtype=np.int32)
        residual[np.argsort(first.ravel(), kind="stable")] = series.reshape(-1, frames - 1)
        by_frame = np.ascontiguousarray(residual.T).reshape(frames - 1, rows, columns)
        block = values[:, start : start + size]
        block[:, used] = restore(first, totals, by_frame, np.float64).astype(np.uint64)
    return values.reshape(tuple(shape))


def _block_rows(frames: int, columns: int) -> int:
    """Rows of one block."""
    return max(1, _BLOCK_VALUES // (frames * columns))


def _groups(values: int) -> int:
    """How many groups of like noise a block has: each has a table of its own, which must pay."""
    return max(1, values // _GROUP_VALUES)


def _parts(data: bytes) -> list[bytes]:
    parts: list[bytes] = []
    offset = 0
    while offset < len(data):
        (length,) = _LENGTH.unpack_from(data, offset)
        offset += _LENGTH.size
        if offset + length > len(data):
            raise ValueError("packed residuals end early")
        parts.append(data[offset : offset + length])
        offset += length
    return parts


def _unpco(data: bytes, dtype: np.dtype[np.int32]) -> npt.NDArray[np.int32]:
    try:
        found = standalone.simple_decompress(data)
    except RuntimeError as error:
        raise ValueError(f"packed values are not readable: {error}") from None
    return np.empty(0, dtype) if found is None else np.asarray(found, dtype)
