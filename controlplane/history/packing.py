"""Packing of count arrays over time, lossless: as they are, or as residuals of predicted counts.

- `octaves`: the values as they are (`series_packing`).
- `residual32`, `residual`: residuals against running shares (`share_residual`), learnt in single
  or double precision, ordered and packed alike. The expert loads.

Chosen among byte planes of whole arrays, pcodec on values and on residuals, and this: `trimtab
bench codec` prints all of them. Byte planes are a third larger. pcodec on residuals is 2 % smaller
on the stationary reference load (pcodec on values up to 9 % on recorded counts of a few texts) and
takes twice the time, which was the largest part of what a fleet costs.
"""

import math
import struct
from collections.abc import Sequence

import numpy as np
import zstandard

from controlplane.history import pcodec_packing
from controlplane.history.planes import Unsigned, Values
from controlplane.history.series_packing import (
    OCTAVES,
    SERIES,
    Reader,
    compress,
    groups,
    pack_octaves,
    unpack_series,
)
from controlplane.history.share_residual import (
    Precision,
    Residuals,
    precision_for,
    relative_noise,
    residuals,
    restore,
)

RESIDUAL32, RESIDUAL = "residual32", "residual"
_PRECISIONS: dict[str, Precision] = {RESIDUAL32: np.float32, RESIDUAL: np.float64}
_BLOCK_VALUES = 2 * 1024 * 1024
_MIN_FRAMES = 3
_MIN_SHARE_SERIES = 256
_MIN_COLUMNS = 16
"""A row of fewer is a histogram or has few experts: not worth the question what predicts it."""
_MAX_NOISE = 0.5
"""Of the counts. A residual has a sign: it has to be half as large to be worth as much."""
_SAMPLED_ROWS = 2
_LENGTH = struct.Struct("<I")


def pack(values: Unsigned) -> tuple[str, bytes]:
    """Pack [T, …] counts; gives the codec's name and the bytes."""
    if (
        len(values) < _MIN_FRAMES
        or values.ndim < 2
        or values.shape[-1] < _MIN_COLUMNS
        or values[0].size < _MIN_SHARE_SERIES
    ):
        return OCTAVES, pack_octaves(values)
    rows = values.reshape(len(values), -1, values.shape[-1])
    totals = _row_totals(rows)
    precision = precision_for(rows, totals)
    if precision is None or not _predictable(rows, totals):
        return OCTAVES, pack_octaves(values)
    codec = RESIDUAL32 if precision is np.float32 else RESIDUAL
    return codec, _pack_residual(rows, totals, precision)


def unpack(codec: str, data: bytes, shape: Sequence[int]) -> Values:
    """The inverse of `pack`; also of what older versions packed.

    Raises:
        ValueError: unknown codec, or bytes that do not fit the shape.
    """
    try:
        if codec in (OCTAVES, SERIES):
            return unpack_series(codec, data, shape)
        if codec in _PRECISIONS:
            return _unpack_residual(data, shape, _PRECISIONS[codec])
        return pcodec_packing.unpack(codec, data, shape)
    except zstandard.ZstdError as error:
        raise ValueError(f"packed values are not readable: {error}") from None


def _row_totals(rows: Unsigned) -> Unsigned:
    """[T, rows] of [T, rows, columns]; in 32 bits where no row can exceed them: half the time."""
    narrow = np.iinfo(rows.dtype).max * rows.shape[-1] < 2**32
    totals: Unsigned = rows.sum(axis=-1, dtype=np.uint32 if narrow else np.uint64)
    return totals


def _predictable(rows: Unsigned, totals: Unsigned) -> bool:
    """Whether shares that held so far predict the counts, judged on a few rows that hold some."""
    used = np.flatnonzero(totals.any(axis=0))[:_SAMPLED_ROWS]
    return relative_noise(rows[:, used], totals[:, used]) <= _MAX_NOISE


def _pack_residual(rows: Unsigned, totals: Unsigned, precision: Precision) -> bytes:
    """Blocks of rows, to bound the memory; each says which of its rows hold anything.

    A block: how long it is, its used rows as bits, and their first frame, totals and residuals.
    """
    parts: list[bytes] = []
    step = _block_rows(rows.shape)
    for start in range(0, rows.shape[1], step):
        block, total = rows[:, start : start + step], totals[:, start : start + step]
        used = total.any(axis=0)
        if not used.all():
            block, total = block[:, used], total[:, used]
        packed = b""
        if block.size:
            first = block[0].reshape(-1)
            noise = residuals(block, total, precision).reshape(len(block) - 1, -1)
            by_size = (_folded(noise.take(o, axis=1)) for o in groups(first, len(block)))
            packed = compress([first, total, *by_size])
        parts += [_LENGTH.pack(len(packed)), np.packbits(used).tobytes(), packed]
    return b"".join(parts)


def _unpack_residual(data: bytes, shape: Sequence[int], precision: Precision) -> Values:
    frames, columns = shape[0], shape[-1]
    values = np.zeros((frames, math.prod(shape[1:-1]), columns), dtype=np.uint64)
    step = _block_rows(values.shape)
    at = 0
    for start in range(0, values.shape[1], step):
        block = values[:, start : start + step]
        bits = at + _LENGTH.size
        begin = bits + (block.shape[1] + 7) // 8
        if begin > len(data):
            raise ValueError("packed residuals end early")
        at = begin + _LENGTH.unpack_from(data, at)[0]
        used = np.unpackbits(np.frombuffer(data[bits:begin], np.uint8), count=block.shape[1])
        rows = int(used.sum())
        if not rows:
            continue
        read = Reader(data[begin:at], frames * rows * (columns + 1))
        first = read.next(rows * columns)
        totals = read.next(frames * rows).reshape(frames, rows)
        noise = np.empty((frames - 1, rows * columns), np.int32)
        for order in groups(first, frames):
            noise[:, order] = _unfolded(read.next((frames - 1) * order.size)).reshape(
                frames - 1, -1
            )
        block[:, used.astype(bool)] = restore(
            first.reshape(rows, columns), totals, noise.reshape(frames - 1, rows, columns),
            precision,
        )  # fmt: skip
    return values.reshape(tuple(shape))


def _block_rows(shape: Sequence[int]) -> int:
    """Rows of one block of [T, rows, columns]."""
    return max(1, _BLOCK_VALUES // (shape[0] * shape[2]))


def _folded(noise: Residuals) -> Unsigned:
    """Signed to unsigned, small to small: 0, -1, 1, -2 become 0, 1, 2, 3."""
    doubled = noise << 1
    doubled ^= noise >> (8 * noise.itemsize - 1)
    return doubled.view(f"u{noise.itemsize}")


def _unfolded(folded: Values) -> Residuals:
    narrow = folded.astype(np.uint32)
    return (narrow >> 1).astype(np.int32) ^ -(narrow & 1).astype(np.int32)
