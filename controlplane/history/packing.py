"""Packing of count arrays over time: three codecs, the smallest result wins. Lossless.

- `planes`: the values' bytes, plane by plane, zstd. Any array.
- `pco`: pcodec on the values, time as the last axis. Small histograms.
- `share`: pcodec on residuals against running shares (`share_residual`), series ordered by size
  so that neighbours have like noise. The expert loads.
"""

import math
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import zstandard
from pcodec import ChunkConfig, DeltaSpec, ModeSpec, standalone

from contract.frame_codec import Counts
from controlplane.history.share_residual import Ints, fits, residuals, restore

Values = npt.NDArray[np.uint64]
PLANES, PCO, SHARE = "planes", "pco", "share"
_ZSTD_LEVEL = 3
_MAX_GROUPS = 16
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
    shared = _with_shares(values) if small else None
    if shared is not None and _predictable(shared):
        return SHARE, _pack_share(shared)
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
    body = bytes([width]) + np.ascontiguousarray(octets.T[:width]).tobytes()
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(body)


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
    values = np.zeros(size, dtype=np.uint64)
    for plane in range(width):
        octets = np.frombuffer(body, dtype=np.uint8, count=size, offset=1 + plane * size)
        values |= octets.astype(np.uint64) << np.uint64(8 * plane)
    return values.reshape(tuple(shape))


def _with_shares(values: Values | Counts) -> Ints | None:
    """[T, rows, E] when there are frames and series enough to learn shares from."""
    if values.ndim < 2 or len(values) < _MIN_FRAMES or values[0].size < _MIN_SHARE_SERIES:
        return None
    signed: Ints = values.reshape(len(values), -1, values.shape[-1]).astype(np.int64)
    return signed if fits(signed) else None


def _predictable(counts: Ints) -> bool:
    """Whether shares that held so far predict the counts, judged on a few rows that hold some."""
    used = np.flatnonzero(counts.any(axis=(0, 2)))[:_SAMPLED_ROWS]
    if used.size == 0:
        return True
    sample = counts[:, used]
    return len(_pack_share(sample)) <= len(pack_planes(sample.astype(np.uint64)))


def _pack_share(counts: Ints) -> bytes:
    """Parts: which rows ever hold something, the first frame, the totals, and the residuals."""
    used = counts.any(axis=(0, 2))
    counts = counts[:, used]
    totals, residual = residuals(counts)
    order = np.argsort(counts[0].ravel(), kind="stable")
    series = residual.reshape(len(residual), -1).T[order]
    parts = [
        np.packbits(used).tobytes(),
        pack_planes(counts[0].astype(np.uint64)),
        pack_planes(totals.astype(np.uint64)),
        *(_pco(group) for group in np.array_split(series, _groups(series.size))),
    ]
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _groups(values: int) -> int:
    """How many groups of like noise: each has a table of its own, which must pay."""
    return max(1, min(_MAX_GROUPS, values // _GROUP_VALUES))


def _unpack_share(data: bytes, shape: Sequence[int]) -> Values:
    frames, columns = shape[0], shape[-1]
    all_rows = int(np.prod(shape[1:-1], dtype=np.int64))
    parts = _parts(data)
    used = np.unpackbits(np.frombuffer(parts[0], np.uint8), count=all_rows).astype(bool)
    rows = int(used.sum())
    first = unpack_planes(parts[1], (rows, columns)).astype(np.int64)
    totals = unpack_planes(parts[2], (frames, rows)).astype(np.int64)
    series = np.concatenate([_unpco(part, np.dtype(np.int32)) for part in parts[3:]])
    order = np.argsort(first.ravel(), kind="stable")
    residual = np.empty((rows * columns, frames - 1), dtype=np.int32)
    residual[order] = series.reshape(rows * columns, frames - 1)
    by_frame = np.ascontiguousarray(residual.T).reshape(frames - 1, rows, columns)
    values = np.zeros((frames, all_rows, columns), dtype=np.uint64)
    values[:, used] = restore(first, totals, by_frame).astype(np.uint64)
    return values.reshape(tuple(shape))


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
    if not data:
        return np.empty(0, dtype=dtype)
    try:
        found = standalone.simple_decompress(data)
    except RuntimeError as error:
        raise ValueError(f"packed values are not readable: {error}") from None
    return np.asarray(found, dtype=dtype)
