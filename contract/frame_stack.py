"""Frames of one engine as stacks: each array over time, decoded together.

Frames that list the same arrays in the same widths (nearly all of a minute do) have payloads of one
layout, so a plane of an array is one slice through all of them: a fifth of the time of decoding
them one by one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from contract.frame import FrameHeader
from contract.frame_arrays import FrameError, Listing, Shape, wrong_totals
from contract.frame_codec import Counts, Frame, unfold

_CHECKED_BYTES = 1024 * 1024
"""Payloads that are held until they are checked together."""

SMALL = 4096
"""Values of an array that is not worth a call of its own: most arrays, so what counts is calls."""

Stacked = npt.NDArray[np.unsignedinteger[Any]]


class Column(NamedTuple):
    """One array of one shape, over the frames that have it.

    Attributes:
        name: of `contract.frame.ARRAYS`.
        holders: indices of these frames in the stack, ascending.
        values: [len(holders), *shape], unsigned, as narrow as the widest of them.
    """

    name: str
    holders: Sequence[int]
    values: Stacked


class SideBySide(NamedTuple):
    """The small arrays that every frame has, by name, as one.

    Attributes:
        columns: of these arrays.
        values: [frames, cells], the cells of one array after those of the one before.
    """

    columns: Sequence[Column]
    values: Stacked


@dataclass(frozen=True)
class Stack:
    """Frames array by array.

    Attributes:
        headers: one a frame, in the order that the frames were given in.
        columns: one for every name and shape; an array that changes its shape has several.
    """

    headers: Sequence[FrameHeader]
    columns: Sequence[Column]

    @property
    def numbers(self) -> int:
        """How many numbers all arrays hold."""
        return sum(column.values.size for column in self.columns)

    @cached_property
    def small(self) -> SideBySide:
        """The small arrays that every frame has; no other column has one of their names."""
        columns = [
            column for column in self.columns
            if len(column.holders) == len(self.headers) and column.values[0].size <= SMALL
        ]  # fmt: skip
        if not columns:
            return SideBySide([], np.zeros((len(self.headers), 0), np.uint8))
        columns.sort(key=lambda column: column.name)
        flat = [column.values.reshape(len(column.values), -1) for column in columns]
        return SideBySide(columns, np.concatenate(flat, axis=1))

    @cached_property
    def large(self) -> Sequence[Column]:
        """The other columns."""
        small = {column.name for column in self.small.columns}
        return [column for column in self.columns if column.name not in small]

    def frames(self) -> list[Frame]:
        """The same, frame by frame."""
        frames = [Frame(header, {}) for header in self.headers]
        for column in self.columns:
            wide = column.values.astype(np.uint32)
            for holder, values in zip(column.holders, wide, strict=True):
                frames[holder].arrays[column.name] = values
        return frames


def stack_frames(frames: Sequence[Frame]) -> Stack:
    """The inverse of `Stack.frames`."""
    held: dict[tuple[str, Shape], list[int]] = {}
    for index, frame in enumerate(frames):
        for name, values in frame.arrays.items():
            held.setdefault((name, values.shape), []).append(index)
    columns = [
        Column(name, holders, _stacked([frames[index].arrays[name] for index in holders]))
        for (name, _), holders in held.items()
    ]
    return Stack([frame.header for frame in frames], columns)


def _stacked(arrays: Sequence[Counts]) -> Stacked:
    """One array more than its own memory only where there are several."""
    return np.stack(arrays) if len(arrays) > 1 else arrays[0][np.newaxis]


def verify(packed: Sequence[bytes]) -> list[FrameHeader | FrameError]:
    """The header of each frame that `decode` accepts, and what it would raise for each other.

    No array is unpacked, and memory stays bounded.
    """
    found: list[FrameHeader | FrameError] = []
    alike: dict[Listing, list[tuple[int, bytes]]] = {}
    held = 0
    for data in packed:
        try:
            header, listed, payload = unfold(data)
            listed.layout(len(payload))
        except FrameError as error:
            found.append(error)
            continue
        alike.setdefault(listed, []).append((len(found), payload))
        found.append(header)
        held += len(payload)
        if held >= _CHECKED_BYTES:
            _check_totals(alike, found)
            held = 0
    _check_totals(alike, found)
    return found


def _check_totals(
    alike: dict[Listing, list[tuple[int, bytes]]], found: list[FrameHeader | FrameError]
) -> None:
    for listing, members in alike.items():
        wrong = wrong_totals([payload for _, payload in members], listing)
        for place, error in wrong.items():
            found[members[place][0]] = error
    alike.clear()


def decode_stack(packed: Sequence[bytes]) -> tuple[Stack, dict[int, FrameError]]:
    """Frames that `decode` accepted before, and what is wrong with those that it would not now.

    The crc of each is checked again; the row totals that it covers are not.
    """
    headers: list[FrameHeader] = []
    damaged: dict[int, FrameError] = {}
    alike: dict[Listing, list[tuple[int, bytes]]] = {}
    for index, data in enumerate(packed):
        try:
            header, listed, payload = unfold(data)
            listed.layout(len(payload))
        except FrameError as error:
            damaged[index] = error
            continue
        alike.setdefault(listed, []).append((len(headers), payload))
        headers.append(header)
    pieces: dict[tuple[str, Shape], list[Column]] = {}
    for listing, members in alike.items():
        for column in _columns(listing, members):
            pieces.setdefault((column.name, column.values.shape[1:]), []).append(column)
    return Stack(headers, [_joined(parts) for parts in pieces.values()]), damaged


def _columns(listing: Listing, members: Sequence[tuple[int, bytes]]) -> list[Column]:
    """The arrays of frames whose payloads have one layout."""
    holders = [index for index, _ in members]
    size = len(members[0][1])
    octets = np.frombuffer(b"".join(payload for _, payload in members), np.uint8)
    octets = octets.reshape(len(members), size)
    columns: list[Column] = []
    for entry, at in zip(listing.known, listing.layout(size).begins, strict=True):
        count = math.prod(entry.shape)
        held = 4 if entry.width > 2 else entry.width
        start = at + 8 * entry.rows
        octets_of = octets[:, start : start + entry.width * count]
        planes = octets_of.reshape(len(members), entry.width, count)
        values: Stacked = planes[:, -1].astype(f"<u{held}")
        for plane in range(entry.width - 2, -1, -1):
            values <<= 8
            values |= planes[:, plane]
        columns.append(Column(entry.name, holders, values.reshape(len(members), *entry.shape)))
    return columns


def _joined(parts: Sequence[Column]) -> Column:
    """Parts of one array that were packed in several widths, in the order of the frames."""
    if len(parts) == 1:
        return parts[0]
    holders = np.concatenate([part.holders for part in parts])
    values = np.concatenate([part.values for part in parts])
    order = np.argsort(holders)
    return Column(parts[0].name, holders[order].tolist(), values[order])
