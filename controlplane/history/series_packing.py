"""Packing of counts over time as they are: the first frame, then the later ones as byte planes.

The series are ordered by the first frame, and those of one octave (2^n to 2^(n+1)) have planes of
their own: neighbours have like sizes and like noise, and each plane an entropy table that suits it.

- `octaves`: as said.
- `series`: groups of like number instead of octaves. Read, and no longer written: small arrays of
  different kinds need octaves to be packed together.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from contract.zstd_blocks import compress_parts, decompress
from controlplane.history.planes import Unsigned, Values, planes_of, values_at

OCTAVES, SERIES = "octaves", "series"
_GROUP_VALUES = 128 * 1024
Order = npt.NDArray[np.intp]
Grouping = Callable[[Unsigned, int], list[Order]]


def pack_octaves(values: Unsigned) -> bytes:
    """Pack [T, …] counts."""
    if not values.size:
        return b""
    flat = values.reshape(len(values), -1)
    return compress([flat[:1], *(flat[1:].take(o, axis=1) for o in octaves(flat[0], len(flat)))])


def unpack_series(codec: str, data: bytes, shape: Sequence[int]) -> Values:
    """The inverse, and of `series`.

    Raises:
        ValueError, ZstdError: the bytes do not fit the shape.
    """
    size = math.prod(shape)
    if not size:
        return np.zeros(tuple(shape), np.uint64)
    grouping: Grouping = octaves if codec == OCTAVES else groups
    read = Reader(data, size)
    values = np.empty((shape[0], size // shape[0]), np.uint64)
    values[0] = read.next(values.shape[1])
    for order in grouping(values[0], shape[0]):
        values[1:, order] = read.next((shape[0] - 1) * order.size).reshape(-1, order.size)
    return values.reshape(tuple(shape))


def octaves(first: Unsigned, _frames: int) -> list[Order]:
    """The series by octave of their first count; 0 has one of its own."""
    order = np.argsort(first, kind="stable")
    bounds = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))
    cuts = np.searchsorted(first[order].astype(np.uint64), bounds)
    return [part for part in np.split(order, cuts) if part.size]


def groups(first: Unsigned, frames: int) -> list[Order]:
    """The series in groups of like size, of 128 K counts each."""
    order = np.argsort(first, kind="stable")
    count = first.size * frames // _GROUP_VALUES
    return np.array_split(order, count) if count > 1 else [order]


def compress(parts: Sequence[Unsigned]) -> bytes:
    """Every part's planes behind a byte that says how many it has."""
    return compress_parts([octets for part in parts for octets in planes_of(part)])


class Reader:
    """The parts of a blob, one after the other."""

    def __init__(self, data: bytes, values: int) -> None:
        self._body = decompress(data, 8 * values + values // _GROUP_VALUES + 128)
        self._at = 0

    def next(self, count: int) -> Values:
        """The next part, of so many values."""
        values, self._at = values_at(self._body, self._at, count)
        return values
