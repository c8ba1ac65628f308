"""The arrays of a frame as bytes: row totals, then byte planes of the values. Pure.

Every array of a frame is a view of one buffer, filled plane by plane, and the row totals of all of
them are checked by one sum: a frame has some thirty arrays, most of them small, so what counts is
calls rather than bytes.
"""

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MAX_WIDTH = 4
MAX_DIMENSIONS = 6
MAX_SIZE = 1 << 24
_CACHED_LAYOUTS = 32
_CACHED_ROWS = 1 << 14

Counts = npt.NDArray[np.uint32]
_Indices = npt.NDArray[np.intp]
Shape = tuple[int, ...]


class FrameError(ValueError):
    """A frame that cannot be read: what, and where. `kind` is one word for metrics."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Listed(NamedTuple):
    """What a header says of an array: its name, how many byte planes, its shape."""

    name: str
    width: int
    shape: Shape


def array_list(entries: object) -> list[Listed]:
    """The header's `_arrays`.

    Raises:
        FrameError: it is not a list of [name, width, shape], or names an array twice.
    """
    if type(entries) is not list:
        raise FrameError("header", f"header field _arrays holds {entries!r}")
    listed: list[Listed] = []
    for entry in entries:
        if not _is_entry(entry):
            raise FrameError("header", f"header field _arrays holds {entry!r}")
        name, width, shape = entry
        listed.append(Listed(name, int(width), tuple(shape)))
    if len({entry.name for entry in listed}) != len(listed):
        raise FrameError("header", "header field _arrays names an array twice")
    return listed


def pack(values: Counts, width: int) -> Iterator[bytes]:
    """Row totals (u64, one a row of the last axis), then `width` planes of the u32 values."""
    rows = values.reshape(-1, values.shape[-1]) if values.size else values.reshape(0, 1)
    yield rows.sum(axis=1, dtype=np.uint64).tobytes()
    octets = values.astype("<u4", copy=False).view(np.uint8).reshape(-1, 4)
    for plane in range(width):
        yield octets[:, plane].tobytes()


def unpack(payload: bytes, listed: Iterable[Listed]) -> dict[str, Counts]:
    """The arrays by name; every byte of the payload is accounted for.

    Raises:
        FrameError: the payload is too short or too long, or row totals do not match.
    """
    entries = list(listed)
    places = _placed(entries, len(payload))
    layout = _layout(tuple(entry.shape for entry in entries))
    octets = np.frombuffer(payload, dtype=np.uint8)
    values = np.zeros(layout.bounds[-1], dtype="<u4")
    cells = values.view(np.uint8).reshape(-1, 4)
    totals: list[bytes] = []
    arrays: dict[str, Counts] = {}
    for index, (entry, at) in enumerate(zip(entries, places, strict=True)):
        first, last = layout.bounds[index], layout.bounds[index + 1]
        size = last - first
        start = at + 8 * layout.rows[index]
        totals.append(payload[at:start])
        for plane in range(entry.width):
            begin = start + plane * size
            cells[first:last, plane] = octets[begin : begin + size]
        arrays[entry.name] = values[first:last].reshape(entry.shape)
    _check_totals(entries, layout, values, np.frombuffer(b"".join(totals), dtype="<u8"))
    return arrays


class _Layout(NamedTuple):
    """Where arrays of given shapes lie in one buffer: bounds, rows each, and each row's start."""

    bounds: list[int]
    rows: list[int]
    starts: _Indices


def _layout(shapes: tuple[Shape, ...]) -> _Layout:
    small = sum(_rows(shape) for shape in shapes) <= _CACHED_ROWS
    return _cached_layout(shapes) if small else _made_layout(shapes)


def _made_layout(shapes: tuple[Shape, ...]) -> _Layout:
    bounds = [0]
    rows: list[int] = []
    starts: list[_Indices] = []
    for shape in shapes:
        first = bounds[-1]
        rows.append(_rows(shape))
        bounds.append(first + math.prod(shape))
        if rows[-1]:
            starts.append(np.arange(first, bounds[-1], shape[-1]))
    return _Layout(bounds, rows, np.concatenate(starts) if starts else np.zeros(0, np.intp))


_cached_layout = lru_cache(_CACHED_LAYOUTS)(_made_layout)


def _rows(shape: Shape) -> int:
    return math.prod(shape) // shape[-1] if shape[-1] else 0


def _placed(entries: list[Listed], available: int) -> list[int]:
    """Where each array starts in the payload; nothing is allocated for one that does not fit."""
    at = 0
    places: list[int] = []
    for entry in entries:
        places.append(at)
        at += 8 * _rows(entry.shape) + entry.width * math.prod(entry.shape)
        if at > available:
            raise FrameError("size", f"payload ends inside {entry.name}")
    if at != available:
        raise FrameError("size", f"payload has {available - at} bytes more than its arrays")
    return places


def _check_totals(
    entries: list[Listed], layout: _Layout, values: Counts, totals: npt.NDArray[np.uint64]
) -> None:
    if not layout.starts.size:
        return
    wrong = np.flatnonzero(np.add.reduceat(values, layout.starts, dtype=np.uint64) != totals)
    if wrong.size:
        at = int(layout.starts[wrong[0]])
        name = next(e.name for e, end in zip(entries, layout.bounds[1:], strict=True) if at < end)
        raise FrameError("checksum", f"row totals of {name} do not match its values")


def _is_entry(entry: object) -> bool:
    if type(entry) is not list or len(entry) != 3:
        return False
    name, width, shape = entry
    return (
        type(name) is str
        and isinstance(width, int)
        and 1 <= width <= MAX_WIDTH
        and type(shape) is list
        and len(shape) <= MAX_DIMENSIONS
        and set(map(type, shape)) == {int}  # neither empty nor with a bool inside
        and min(shape) >= 0
        and max(shape) <= MAX_SIZE
    )
