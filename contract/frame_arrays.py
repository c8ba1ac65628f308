"""The arrays of a frame as bytes: row totals, then byte planes of the values. Pure.

Every array of a frame is a view of one buffer. The small ones are gathered from the payload in one
call and their row totals are checked by one sum: a frame has some thirty arrays, most of them
small, so what counts is calls rather than bytes. Those of large ones are checked plane by plane,
which is cheaper than of the values, and needs none. For the same reason frames are checked several
at once where several come.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, TypeAdapter, ValidationError

from contract.frame import ARRAYS

MAX_WIDTH = 4
MAX_DIMENSIONS = 6
MAX_SIZE = 1 << 24
MAX_ARRAYS = 256
_KEPT_LISTINGS = 64
_KEPT_ROWS = 1 << 12
_SMALL = 2048
_GATHERED = 1 << 14
"""Values of an array, and of all together, that are gathered in one call."""

Counts = npt.NDArray[np.uint32]
_Indices = npt.NDArray[np.intp]
_Octets = npt.NDArray[np.uint8]
Shape = tuple[int, ...]
_NONE: _Indices = np.zeros(0, np.intp)


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

    @property
    def rows(self) -> int:
        """How many rows of the last axis there are."""
        return self.size // self.shape[-1] if self.shape[-1] else 0

    @property
    def size(self) -> int:
        """How many values there are."""
        return math.prod(self.shape)

    @property
    def packed_bytes(self) -> int:
        """How many bytes of a payload it has."""
        return 8 * self.rows + self.width * self.size


class Layout(NamedTuple):
    """Where known arrays lie, in a payload and in one buffer of their values.

    Attributes:
        values: how many the buffer has.
        begins: where each array starts in the payload, row totals first.
        places: where each lies in the buffer: from, and up to. The gathered ones come first.
        gathered: where the four bytes of each value of the small arrays are in the payload; bytes
            that it does not hold are zero, and said to be at its end.
        apart: the large arrays, which are unpacked plane by plane, by their place in the list.
        rows: where each row of any array starts in the buffer, ascending.
        totals: where the eight bytes of the total of each of these rows are in the payload.
    """

    values: int
    begins: list[int]
    places: list[tuple[int, int]]
    gathered: _Indices
    apart: list[int]
    rows: _Indices
    totals: _Indices


class Listing:
    """The arrays of a frame in their order; what follows from it is worked out once.

    A newer minor may add arrays: what is not known here is skipped, whatever is in it.

    Attributes:
        entries: all of them. known: those of `contract.frame.ARRAYS`.
        unknown_bytes: of a payload, that the others have.
        fits: the topology of the last header that the shapes were found to be right for.
    """

    def __init__(self, entries: Iterable[Listed]) -> None:
        self.entries = tuple(entries)
        ends = accumulate(entry.packed_bytes for entry in self.entries)
        begins = [0, *ends]
        self.payload_bytes = begins.pop()
        known = [
            (entry, begin)
            for entry, begin in zip(self.entries, begins, strict=True)
            if entry.name in ARRAYS
        ]
        self.known = [entry for entry, _ in known]
        self.unknown_bytes = self.payload_bytes - sum(entry.packed_bytes for entry in self.known)
        self.fits: tuple[int, ...] | None = None
        self._begins = [begin for _, begin in known]
        self._layout: Layout | None = None

    def layout(self, available: int) -> Layout:
        """Where the known arrays lie in a payload of so many bytes.

        Raises:
            FrameError: the payload is too short or too long; nothing was allocated.
        """
        if available != self.payload_bytes:
            raise FrameError(
                "size", f"payload has {available} bytes, its arrays have {self.payload_bytes}"
            )
        if self._layout is not None:
            return self._layout
        layout = _layout(self.known, self._begins, available)
        if layout.rows.size <= _KEPT_ROWS:
            self._layout = layout
        return layout


def _layout(entries: Sequence[Listed], begins: list[int], available: int) -> Layout:
    sizes = [entry.size for entry in entries]
    small = np.array(sizes, dtype=np.intp) <= _SMALL
    small &= np.cumsum(np.where(small, sizes, 0)) <= _GATHERED
    places = [(0, 0)] * len(entries)
    gathered, rows, totals = [_NONE], [_NONE], [_NONE]
    end = 0
    for index in sorted(range(len(entries)), key=lambda index: not small[index]):
        entry, first = entries[index], end
        end += entry.size
        places[index] = (first, end)
        start = begins[index] + 8 * entry.rows
        totals.append(np.arange(begins[index], start))
        if entry.rows:
            rows.append(np.arange(first, end, entry.shape[-1]))
        if small[index]:
            octets = np.full((entry.size, MAX_WIDTH), available)
            octets[:, : entry.width] = (
                np.arange(start, start + entry.width * entry.size)
                .reshape(entry.width, entry.size)
                .T
            )
            gathered.append(octets.ravel())
    return Layout(
        end, begins, places, np.concatenate(gathered), np.flatnonzero(~small).tolist(),
        np.concatenate(rows), np.concatenate(totals),
    )  # fmt: skip


_Extent = Annotated[int, Field(strict=True, ge=0, le=MAX_SIZE)]
_Entry = tuple[
    str,
    Annotated[int, Field(strict=True, ge=1, le=MAX_WIDTH)],
    Annotated[tuple[_Extent, ...], Field(min_length=1, max_length=MAX_DIMENSIONS)],
]
_ENTRIES = TypeAdapter(Annotated[list[_Entry], Field(max_length=MAX_ARRAYS)])


def array_list(entries: object) -> Listing:
    """The header's `_arrays`.

    Raises:
        FrameError: it is not a list of [name, width, shape], or names an array twice.
    """
    try:
        return _listing(tuple(_ENTRIES.validate_python(entries)))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("_arrays", *first["loc"]))
        raise FrameError("header", f"header field {where}: {first['msg']}") from None


@lru_cache(_KEPT_LISTINGS)
def _listing(entries: tuple[tuple[str, int, Shape], ...]) -> Listing:
    """The same list stands in one engine's frames second after second."""
    if len({name for name, _, _ in entries}) != len(entries):
        raise FrameError("header", "header field _arrays names an array twice")
    return Listing(Listed(*entry) for entry in entries)


def pack(values: Counts, width: int) -> Iterator[bytes]:
    """Row totals (u64, one a row of the last axis), then `width` planes of the u32 values."""
    rows = values.reshape(-1, values.shape[-1]) if values.size else values.reshape(0, 1)
    yield rows.sum(axis=1, dtype=np.uint64).tobytes()
    octets = values.astype("<u4", copy=False).view(np.uint8).reshape(-1, 4)
    for plane in range(width):
        yield octets[:, plane].tobytes()


def unpack(payload: bytes, listed: Listing) -> dict[str, Counts]:
    """The known arrays by name; every byte of the payload is accounted for.

    Raises:
        FrameError: the payload is too short or too long, or row totals do not match.
    """
    layout = listed.layout(len(payload))
    octets = _stacked([payload])
    small = _small_values(octets, layout)
    for error in _wrong_totals(octets, small, listed, layout).values():
        raise error
    values = np.empty(layout.values, dtype="<u4")
    values[: small.size] = small[0]
    for index in layout.apart:
        first, last = layout.places[index]
        cells = values[first:last]
        planes = _planes(octets, listed, layout, index)[0]
        planes = planes.reshape(len(planes), -1)
        cells[...] = planes[-1]
        for plane in planes[-2::-1]:
            np.left_shift(cells, 8, out=cells)
            np.bitwise_or(cells, plane, out=cells)
    return {
        entry.name: values[first:last].reshape(entry.shape)
        for entry, (first, last) in zip(listed.known, layout.places, strict=True)
    }


def wrong_totals(payloads: Sequence[bytes], listed: Listing) -> dict[int, FrameError]:
    """What `unpack` would raise for payloads of one layout, by their place; none is unpacked."""
    layout = listed.layout(len(payloads[0]))
    octets = _stacked(payloads)
    return _wrong_totals(octets, _small_values(octets, layout), listed, layout)


def _stacked(payloads: Sequence[bytes]) -> _Octets:
    """[payloads, bytes + 1]: what a payload does not hold is looked for at its end, and is 0."""
    octets = np.frombuffer(b"\0".join([*payloads, b""]), dtype=np.uint8)
    return octets.reshape(len(payloads), -1)


def _small_values(octets: _Octets, layout: Layout) -> Counts:
    """[payloads, values] of the gathered arrays."""
    return octets.take(layout.gathered, axis=1).view("<u4")


def _planes(octets: _Octets, listed: Listing, layout: Layout, index: int) -> _Octets:
    """The planes of an array, [payloads, width, rows, last axis], lowest first."""
    entry = listed.known[index]
    begin = layout.begins[index] + 8 * entry.rows
    planes = octets[:, begin : begin + entry.width * entry.size]
    return planes.reshape(len(octets), entry.width, entry.rows, -1)


def _wrong_totals(
    octets: _Octets, small: Counts, listed: Listing, layout: Layout
) -> dict[int, FrameError]:
    """The row totals that payloads state, against those of their values."""
    if not layout.rows.size:
        return {}
    sums: list[npt.NDArray[np.uint64]] = []
    of_small = layout.rows[: np.searchsorted(layout.rows, small.shape[1])]
    if of_small.size:
        sums.append(np.add.reduceat(small, of_small, axis=1, dtype=np.uint64))
    for index in layout.apart:
        # A row of `MAX_SIZE` bytes sums up to less than 2^32.
        by_plane = np.add.reduce(_planes(octets, listed, layout, index), axis=-1, dtype=np.uint32)
        total = by_plane[:, -1].astype(np.uint64)
        for plane in range(by_plane.shape[1] - 2, -1, -1):
            total = (total << np.uint64(8)) + by_plane[:, plane]
        sums.append(total)
    stated = octets.take(layout.totals, axis=1).view("<u8")
    wrong: dict[int, FrameError] = {}
    for payload, row in np.argwhere(np.concatenate(sums, axis=1) != stated):
        name = _name_at(listed, layout, int(layout.rows[row]))
        error = FrameError("checksum", f"row totals of {name} do not match its values")
        wrong.setdefault(int(payload), error)
    return wrong


def _name_at(listed: Listing, layout: Layout, at: int) -> str:
    found = zip(listed.known, layout.places, strict=True)
    return next(entry.name for entry, (first, last) in found if first <= at < last)
