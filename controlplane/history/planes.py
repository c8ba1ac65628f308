"""Byte planes of unsigned arrays, zstd-compressed, each plane with an entropy table of its own."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from contract.zstd_blocks import Octets, compress_parts, decompress

Values = npt.NDArray[np.uint64]
Unsigned = npt.NDArray[np.unsignedinteger[Any]]


def pack_planes(values: Unsigned) -> bytes:
    """Byte planes of unsigned values, only as many as the largest value needs, zstd."""
    return compress_parts(list(planes_of(values)))


def unpack_planes(data: bytes, shape: Sequence[int]) -> Values:
    """The inverse of `pack_planes`.

    Raises:
        ValueError: the bytes do not fit the shape.
    """
    size = math.prod(shape)
    body = decompress(data, 1 + 8 * size)
    values, end = values_at(body, 0, size)
    if end != len(body):
        raise ValueError(f"byte planes of {len(body)} bytes do not hold {size} values")
    return values.reshape(tuple(shape))


def planes_of(values: Unsigned) -> Iterator[Octets]:
    """How many planes, as one byte, and the planes, lowest first."""
    width = max(1, (int(values.max(initial=0)).bit_length() + 7) // 8)
    held = next(size for size in (1, 2, 4, 8) if size >= width)
    rest = np.ascontiguousarray(values, dtype=f"<u{held}").reshape(-1)
    yield bytes([width])
    for plane in range(width):
        # A cast cuts the higher bytes off, many at a time; picking every n-th byte does not.
        yield (rest >> 8 * plane if plane else rest).astype(np.uint8).data


def values_at(body: bytes, at: int, size: int) -> tuple[Values, int]:
    """The inverse of `planes_of`, from offset `at`; gives also where the planes end.

    Raises:
        ValueError: the bytes do not hold so many values.
    """
    width = body[at] if at < len(body) else 0
    at += 1
    end = at + width * size
    if not 1 <= width <= 8 or end > len(body):
        raise ValueError(f"byte planes of {len(body)} bytes do not hold {size} values")
    # 32 bits at a time where they suffice: half the memory to pass over.
    held: np.dtype[Any] = np.dtype(np.uint32 if width <= 4 else np.uint64)
    values: npt.NDArray[Any] = np.zeros(size, dtype=held)
    for plane in range(width):
        octets = np.frombuffer(body, dtype=np.uint8, count=size, offset=at + plane * size)
        np.bitwise_or(values, octets.astype(held) << held.type(8 * plane), out=values)
    return values.astype(np.uint64, copy=False), end
