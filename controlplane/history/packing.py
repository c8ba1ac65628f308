"""Packing of count arrays over time, lossless: `series`, or `residual` where shares predict counts.

- `series`: the first frame, then the later ones as byte planes, series ordered by the first frame.
  Neighbours then have like sizes and like noise, and every 128 KiB of them an entropy table.
- `residual`: the same of residuals against running shares (`share_residual`). The expert loads.

Chosen among byte planes of whole arrays, pcodec on values and on residuals, and this: `trimtab
bench codec` prints all of them. Byte planes are a third larger. pcodec on residuals is 2 % smaller
on the stationary reference load (pcodec on values up to 9 % on recorded counts of a few texts) and
takes twice the time, which was the largest part of what a fleet costs.
"""

import math
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import zstandard

from contract.zstd_blocks import compress_parts, decompress
from controlplane.history import pcodec_packing
from controlplane.history.planes import Unsigned, Values, planes_of, values_at
from controlplane.history.share_residual import Residuals, fits, residuals, restore

SERIES, RESIDUAL = "series", "residual"
_LEVEL = 1
"""Noise has no repeats to search for; level 3 takes a tenth longer for 0.1 %."""
_GROUP_VALUES = 128 * 1024
_BLOCK_VALUES = 2 * 1024 * 1024
_MIN_FRAMES = 3
_MIN_SHARE_SERIES = 256
_MIN_COLUMNS = 16
"""A row of fewer is a histogram or has few experts: not worth the question what predicts it."""
_SAMPLED_ROWS = 2
_LENGTH = struct.Struct("<I")
_Order = npt.NDArray[np.intp]
_Totals = npt.NDArray[np.uint64]


def pack(values: Unsigned) -> tuple[str, bytes]:
    """Pack [T, …] counts; gives the codec's name and the bytes."""
    if (
        len(values) < _MIN_FRAMES
        or values.ndim < 2
        or values.shape[-1] < _MIN_COLUMNS
        or values[0].size < _MIN_SHARE_SERIES
    ):
        return SERIES, pack_series(values)
    rows = values.reshape(len(values), -1, values.shape[-1])
    totals = rows.sum(axis=-1, dtype=np.uint64)
    if fits(totals) and _predictable(rows, totals):
        return RESIDUAL, _pack_residual(rows, totals)
    return SERIES, pack_series(values)


def unpack(codec: str, data: bytes, shape: Sequence[int]) -> Values:
    """The inverse of `pack`; also of what older versions packed.

    Raises:
        ValueError: unknown codec, or bytes that do not fit the shape.
    """
    try:
        match codec:
            case "series":
                return _unpack_series(data, shape)
            case "residual":
                return _unpack_residual(data, shape)
            case _:
                return pcodec_packing.unpack(codec, data, shape)
    except zstandard.ZstdError as error:
        raise ValueError(f"packed values are not readable: {error}") from None


def pack_series(values: Unsigned) -> bytes:
    """The values themselves, without a prediction."""
    if not values.size:
        return b""
    flat = values.reshape(len(values), -1)
    return _compress([flat[:1], *(flat[1:].take(o, axis=1) for o in _groups(flat[0], len(flat)))])


def _unpack_series(data: bytes, shape: Sequence[int]) -> Values:
    size = math.prod(shape)
    if not size:
        return np.zeros(tuple(shape), np.uint64)
    read = _Reader(data, size)
    values = np.empty((shape[0], size // shape[0]), np.uint64)
    values[0] = read.next(values.shape[1])
    for order in _groups(values[0], shape[0]):
        values[1:, order] = read.next((shape[0] - 1) * order.size).reshape(-1, order.size)
    return values.reshape(tuple(shape))


def _predictable(rows: Unsigned, totals: _Totals) -> bool:
    """Whether shares that held so far predict the counts, judged on a few rows that hold some.

    A residual has a sign: it has to be half as large as the count to be worth as much.
    """
    used = np.flatnonzero(totals.any(axis=0))[:_SAMPLED_ROWS]
    noise = np.abs(residuals(rows[:, used], totals[:, used])).sum(dtype=np.uint64)
    return bool(2 * noise <= totals[1:, used].sum())


def _pack_residual(rows: Unsigned, totals: _Totals) -> bytes:
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
            noise = residuals(block, total).reshape(len(block) - 1, -1)
            by_size = (_folded(noise.take(o, axis=1)) for o in _groups(first, len(block)))
            packed = _compress([first, total, *by_size])
        parts += [_LENGTH.pack(len(packed)), np.packbits(used).tobytes(), packed]
    return b"".join(parts)


def _unpack_residual(data: bytes, shape: Sequence[int]) -> Values:
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
        read = _Reader(data[begin:at], frames * rows * (columns + 1))
        first = read.next(rows * columns)
        totals = read.next(frames * rows).reshape(frames, rows)
        noise = np.empty((frames - 1, rows * columns), np.int32)
        for order in _groups(first, frames):
            noise[:, order] = _unfolded(read.next((frames - 1) * order.size)).reshape(
                frames - 1, -1
            )
        block[:, used.astype(bool)] = restore(
            first.reshape(rows, columns), totals, noise.reshape(frames - 1, rows, columns)
        )
    return values.reshape(tuple(shape))


def _block_rows(shape: Sequence[int]) -> int:
    """Rows of one block of [T, rows, columns]."""
    return max(1, _BLOCK_VALUES // (shape[0] * shape[2]))


def _groups(first: Unsigned, frames: int) -> list[_Order]:
    """The series in groups of like size."""
    order = np.argsort(first, kind="stable")
    groups = first.size * frames // _GROUP_VALUES
    return np.array_split(order, groups) if groups > 1 else [order]


def _folded(noise: Residuals) -> npt.NDArray[np.uint32]:
    """Signed to unsigned, small to small: 0, -1, 1, -2 become 0, 1, 2, 3."""
    doubled = noise << 1
    doubled ^= noise >> 31
    return doubled.view(np.uint32)


def _unfolded(folded: Values) -> Residuals:
    narrow = folded.astype(np.uint32)
    return (narrow >> 1).astype(np.int32) ^ -(narrow & 1).astype(np.int32)


def _compress(parts: Sequence[Unsigned]) -> bytes:
    """Every part's planes behind a byte that says how many it has."""
    return compress_parts([octets for part in parts for octets in planes_of(part)], _LEVEL)


class _Reader:
    """The parts of a blob, one after the other."""

    def __init__(self, data: bytes, values: int) -> None:
        self._body = decompress(data, 8 * values + values // _GROUP_VALUES + 8)
        self._at = 0

    def next(self, count: int) -> Values:
        """The next part, of so many values."""
        values, self._at = values_at(self._body, self._at, count)
        return values
