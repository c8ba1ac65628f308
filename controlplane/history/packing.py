"""Packing of count arrays over time: three codecs, the smallest result wins. Lossless.

- `planes`: the values' bytes, plane by plane, zstd. Any array.
- `pco`: pcodec on the values, time as the last axis. Small histograms.
- `share`: pcodec on residuals against running shares (`share_residual`), series ordered by size
  so that neighbours have like noise. The expert loads.

Predictor, level and block size were chosen among some twenty settings on the stationary reference
load that `trimtab bench codec` also scores; real loads drift, and there the few rows that are tried
first decide between the codecs. Level 8 would save 0.7 % for half as much time again.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard
from pcodec import ChunkConfig, DeltaSpec, ModeSpec, standalone

from contract.frame_codec import Counts
from contract.zstd_blocks import compress_parts
from controlplane.history.share_residual import fits, residuals, restore

Values = npt.NDArray[np.uint64]
PLANES, PCO, SHARE = "planes", "pco", "share"
_ZSTD_LEVEL = 3
_BLOCK_VALUES = 262_144
_GROUP_VALUES = 65_536
_MIN_FRAMES = 3
_MIN_SHARE_SERIES = 256
_SAMPLED_ROWS = 4
_LENGTH = struct.Struct("<I")
_CONFIG = ChunkConfig(
    compression_level=6, delta_spec=DeltaSpec.no_op(), mode_spec=ModeSpec.classic()
)


def pack(values: Values | Counts) -> tuple[str, bytes]:
    """Pack [T, …] counts; gives the codec's name and the bytes."""
    small = values.size > 0 and int(values.max()) < 2**31
    if small and _has_shares(values) and _predictable(values):
        return SHARE, _pack_share(values)
    candidates = [(PLANES, pack_planes(values))]
    if small:
        candidates.append((PCO, _pco(np.moveaxis(values, 0, -1).astype(np.int32))))
    return min(candidates, key=lambda candidate: len(candidate[1]))


def unpack(codec: str, data: bytes, shape: Sequence[int]) -> Values:
    """The inverse of `pack`.

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
            raise ValueError(f"unknown codec {codec!r}; known: {PLANES}, {PCO}, {SHARE}")


def pack_planes(values: Values | Counts) -> bytes:
    """Byte planes of unsigned values, only as many as the largest value needs, zstd."""
    width = max(1, (int(values.max(initial=0)).bit_length() + 7) // 8)
    held = next(size for size in (1, 2, 4, 8) if size >= width)
    octets = np.ascontiguousarray(values, dtype=f"<u{held}").view(np.uint8).reshape(-1, held)
    planes = [octets[:, plane].tobytes() for plane in range(width)]
    return compress_parts([bytes([width]), *planes], _ZSTD_LEVEL)


def unpack_planes(data: bytes, shape: Sequence[int]) -> Values:
    """The inverse of `pack_planes`.

    Raises:
        ValueError: the bytes do not fit the shape.
    """
    size = math.prod(shape)
    body = zstandard.ZstdDecompressor().decompress(data, max_output_size=1 + 8 * size)
    width = body[0] if body else 0
    if not 1 <= width <= 8 or len(body) != 1 + width * size:
        raise ValueError(f"byte planes of {len(body)} bytes do not hold {size} values")
    # 32 bits at a time where they suffice: half the memory to pass over.
    held: np.dtype[Any] = np.dtype(np.uint32 if width <= 4 else np.uint64)
    values: npt.NDArray[Any] = np.zeros(size, dtype=held)
    for plane in range(width):
        octets = np.frombuffer(body, dtype=np.uint8, count=size, offset=1 + plane * size)
        np.bitwise_or(values, octets.astype(held) << held.type(8 * plane), out=values)
    return values.astype(np.uint64, copy=False).reshape(tuple(shape))


def _has_shares(values: Values | Counts) -> bool:
    """Whether there are frames and series enough to learn shares from."""
    enough = values.ndim >= 2 and len(values) >= _MIN_FRAMES and values[0].size >= _MIN_SHARE_SERIES
    return enough and fits(values)


def _predictable(values: Values | Counts) -> bool:
    """Whether shares that held so far predict the counts, judged on a few rows that hold some."""
    rows = values.reshape(len(values), -1, values.shape[-1])
    used = np.flatnonzero(rows.any(axis=(0, 2)))[:_SAMPLED_ROWS]
    sample = rows[:, used]
    return used.size == 0 or len(_pack_share(sample)) <= len(pack_planes(sample))


def _pack_share(values: Values | Counts) -> bytes:
    """Blocks of rows, small enough for the processor's cache; each says which rows hold anything.

    A block's parts: its used rows as bits, their first frame, their totals, their residuals.
    """
    rows = values.reshape(len(values), -1, values.shape[-1])
    parts: list[bytes] = []
    step = _block_rows(rows.shape[0], rows.shape[2])
    for start in range(0, rows.shape[1], step):
        block = rows[:, start : start + step].astype(np.int64)
        used = block.any(axis=(0, 2))
        block = block[:, used]
        totals, residual = residuals(block)
        order = np.argsort(block[0].ravel(), kind="stable")
        series = residual.reshape(len(residual), -1).T[order]
        parts += [
            np.packbits(used).tobytes(),
            pack_planes(block[0].astype(np.uint64)),
            pack_planes(totals.astype(np.uint64)),
            *(_pco(group) for group in np.array_split(series, _groups(series.size))),
        ]
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


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
        block[:, used] = restore(first, totals, by_frame).astype(np.uint64)
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


def _pco(values: npt.NDArray[np.int32]) -> bytes:
    return bytes(standalone.simple_compress(np.ascontiguousarray(values).ravel(), _CONFIG))


def _unpco(data: bytes, dtype: np.dtype[np.int32]) -> npt.NDArray[np.int32]:
    try:
        found = standalone.simple_decompress(data)
    except RuntimeError as error:
        raise ValueError(f"packed values are not readable: {error}") from None
    return np.empty(0, dtype) if found is None else np.asarray(found, dtype)
