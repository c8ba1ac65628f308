"""Rollups: an `EngineWindow` as a blob, every large array readable alone.

Layout, little endian: magic `MOEW` · u8 version · u32 crc32 of the index · u32 index bytes ·
index (JSON, zstd) · the small arrays, one after the other, as byte planes · each large array as
byte planes. Version 1 has planes for every array. Values are absolute, so rollups add up.
"""

import json
import math
import struct
import zlib
from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
import zstandard
from pydantic import ValidationError

from contract.frame import FrameHeader
from contract.frame_stack import SMALL
from contract.zstd_blocks import compress, decompress
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.planes import pack_planes, unpack_planes
from controlplane.history.window import EngineWindow, Sums, Topology

_MAGIC = b"MOEW"
_VERSION, _EVERY_ARRAY_ALONE = 2, 1
_KEPT_ENTRIES = 256
_PREFIX = struct.Struct("<4sBII")
_MAX_INDEX_BYTES = 4 * 1024 * 1024
_NOT_PLAIN = ("header", "arrays", "by_generation")
_PLAIN = tuple(
    field.name for field in fields(EngineWindow) if field.init and field.name not in _NOT_PLAIN
)


def encode_window(window: EngineWindow) -> bytes:
    """Pack a window."""
    entries: list[str] = []
    small: list[Sums] = []
    large: list[bytes] = []

    def put(name: str, values: Sums, generation: int | None) -> None:
        entry = _entry(name, generation, values.shape)
        if values.size <= SMALL:
            small.append(values.reshape(-1))
            entries.append(f"{{{entry}}}")
        else:
            blob = pack_planes(values)
            entries.append(f'{{{entry},"bytes":{len(blob)},"crc":{zlib.crc32(blob)}}}')
            large.append(blob)

    for name, values in window.arrays.items():
        put(name, values, None)
    for generation, arrays in window.by_generation.items():
        for name, values in arrays.items():
            put(name, values, generation)
    rest = pack_planes(np.concatenate(small)) if small else b""
    plain = _json({name: getattr(window, name) for name in _PLAIN})
    said = _json(
        {"bytes": len(rest), "crc": zlib.crc32(rest), "values": sum(part.size for part in small)}
    )
    text = (
        f'{{{plain},"header":{window.header.model_dump_json()},'
        f'"arrays":[{",".join(entries)}],"rest":{{{said}}}}}'
    )
    packed = compress(text.encode())
    prefix = _PREFIX.pack(_MAGIC, _VERSION, zlib.crc32(packed), len(packed))
    return prefix + packed + rest + b"".join(large)


@lru_cache(_KEPT_ENTRIES)
def _entry(name: str, generation: int | None, shape: tuple[int, ...]) -> str:
    """What the index says of any array; an engine's windows have the same ones minute by minute."""
    return _json({"name": name, "of": generation, "shape": shape})


def _json(values: dict[str, Any]) -> str:
    """The fields of an object, without its braces."""
    return json.dumps(values, separators=(",", ":"))[1:-1]


@dataclass(frozen=True, slots=True)
class Rollup:
    """A stored window, its header not yet checked: a sum of many needs only the newest one's.

    Attributes:
        plain: the scalar fields of `EngineWindow`.
        raw_header: the newest frame's header as JSON values.
        arrays, by_generation: what was unpacked.
    """

    plain: dict[str, Any]
    raw_header: dict[str, Any]
    arrays: dict[str, Sums]
    by_generation: dict[int, dict[str, Sums]]

    @property
    def newest_started(self) -> float:
        """Start of the newest frame."""
        return float(self.raw_header.get("started_unix_seconds", 0.0))

    @property
    def topology(self) -> Topology:
        """Of the model that the arrays by layer and expert are about."""
        return int(self.raw_header.get("layers", 0)), int(self.raw_header.get("experts", 0))

    def window(self, header: FrameHeader | None = None) -> EngineWindow:
        """The window, with its own header, or with one that stands for many.

        Raises:
            CorruptChunkError: its own header is not one.
        """
        return EngineWindow(
            header=header or checked_header(self.raw_header), arrays=self.arrays,
            by_generation=self.by_generation, **self.plain,
        )  # fmt: skip


def checked_header(raw: dict[str, Any]) -> FrameHeader:
    """A header from its JSON values.

    Raises:
        CorruptChunkError: it is not one.
    """
    try:
        return FrameHeader.model_validate(raw)
    except ValidationError as error:
        raise CorruptChunkError(f"a rollup's header is not readable: {error}") from None


def decode_window(data: bytes, *, only: Collection[str] | None = None) -> EngineWindow:
    """The inverse of `encode_window`; `only` names the arrays to unpack, None unpacks all.

    Raises:
        CorruptChunkError: what was asked for is damaged.
    """
    return decode_rollup(data, only=only).window()


def decode_rollup(data: bytes, *, only: Collection[str] | None = None) -> Rollup:
    """The same, without checking the header.

    Raises:
        CorruptChunkError: what was asked for is damaged.
    """
    index, offset = _open(data)
    arrays: dict[str, Sums] = {}
    by_generation: dict[int, dict[str, Sums]] = {}
    try:
        rest = index.get("rest", {"bytes": 0})
        small = _Small(data[offset : offset + rest["bytes"]], rest)
        offset += rest["bytes"]
        for entry in index["arrays"]:
            name, shape, size = entry["name"], entry["shape"], entry.get("bytes")
            wanted = only is None or name in only
            values: Sums | None = None
            if size is None:
                values = small.next(shape, wanted=wanted)
            elif wanted:
                blob = _checked(data[offset : offset + size], entry["crc"], name)
                values = unpack_planes(blob, shape)
            offset += size or 0
            if values is not None:
                held = arrays
                if entry["of"] is not None:
                    held = by_generation.setdefault(entry["of"], {})
                held[name] = values
        index.setdefault("left_out", 0)  # rollups did not always tell
        plain = {name: index[name] for name in _PLAIN}
        header = dict(index["header"])
    except (ValueError, KeyError, TypeError, zstandard.ZstdError) as error:
        raise CorruptChunkError(f"a rollup is not readable: {error}") from None
    plain["tokens"] = tuple(plain["tokens"])
    plain["live_biases"] = tuple(plain["live_biases"])
    return Rollup(plain, header, arrays, by_generation)


class _Small:
    """The small arrays, in their order; they are unpacked when one of them is wanted."""

    def __init__(self, blob: bytes, said: dict[str, int]) -> None:
        self._blob, self._said = blob, said
        self._values: Sums | None = None
        self._at = 0

    def next(self, shape: list[int], *, wanted: bool) -> Sums | None:
        """The next one; None when it is not wanted."""
        first = self._at
        self._at += math.prod(shape)
        if not wanted:
            return None
        if self._values is None:
            blob = _checked(self._blob, self._said["crc"], "small arrays")
            self._values = unpack_planes(blob, (self._said["values"],))
        return self._values[first : self._at].reshape(tuple(shape))


def _checked(blob: bytes, crc: int, what: str) -> bytes:
    if zlib.crc32(blob) != crc:
        raise CorruptChunkError(f"a rollup's {what} is damaged: crc32 does not match")
    return blob


def _open(data: bytes) -> tuple[dict[str, Any], int]:
    try:
        magic, version, crc, size = _PREFIX.unpack_from(data)
    except struct.error:
        raise CorruptChunkError(f"a rollup of {len(data)} bytes has no prefix") from None
    packed = data[_PREFIX.size : _PREFIX.size + size]
    if (
        magic != _MAGIC
        or version not in (_VERSION, _EVERY_ARRAY_ALONE)
        or zlib.crc32(packed) != crc
    ):
        raise CorruptChunkError("a rollup's index is damaged, or of a version not known here")
    try:
        text = decompress(packed, _MAX_INDEX_BYTES)
        index: dict[str, Any] = json.loads(text)
    except (ValueError, zstandard.ZstdError) as error:
        raise CorruptChunkError(f"a rollup's index is not readable: {error}") from None
    return index, _PREFIX.size + size
