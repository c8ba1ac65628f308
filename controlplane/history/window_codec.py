"""Rollups: an `EngineWindow` as a blob, every array readable alone.

Layout, little endian: magic `MOEW` · u8 version · u32 crc32 of the index · u32 index bytes ·
index (JSON, zstd) · arrays as byte planes. Values are absolute, so rollups add up.
"""

import json
import struct
import zlib
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

import zstandard
from pydantic import ValidationError

from contract.frame import FrameHeader
from controlplane.history.chunk_codec import CorruptChunkError
from controlplane.history.packing import pack_planes, unpack_planes
from controlplane.history.window import EngineWindow, Sums

_MAGIC = b"MOEW"
_VERSION = 1
_PREFIX = struct.Struct("<4sBII")
_MAX_INDEX_BYTES = 4 * 1024 * 1024
_NOT_PLAIN = ("header", "arrays", "by_generation")
_PLAIN = tuple(
    field.name for field in fields(EngineWindow) if field.init and field.name not in _NOT_PLAIN
)


def encode_window(window: EngineWindow) -> bytes:
    """Pack a window."""
    entries: list[dict[str, Any]] = []
    blobs: list[bytes] = []

    def put(name: str, values: Sums, generation: int | None) -> None:
        blob = pack_planes(values)
        entries.append(
            {"name": name, "of": generation, "shape": values.shape, "bytes": len(blob),
             "crc": zlib.crc32(blob)}
        )  # fmt: skip
        blobs.append(blob)

    for name, values in window.arrays.items():
        put(name, values, None)
    for generation, arrays in window.by_generation.items():
        for name, values in arrays.items():
            put(name, values, generation)
    index = {name: getattr(window, name) for name in _PLAIN}
    index["header"] = window.header.model_dump(mode="json")
    index["arrays"] = entries
    text = json.dumps(index, separators=(",", ":"))
    packed = zstandard.ZstdCompressor(level=3).compress(text.encode())
    prefix = _PREFIX.pack(_MAGIC, _VERSION, zlib.crc32(packed), len(packed))
    return prefix + packed + b"".join(blobs)


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
        for entry in index["arrays"]:
            blob = memoryview(data)[offset : offset + entry["bytes"]]
            offset += entry["bytes"]
            name = entry["name"]
            if only is not None and name not in only:
                continue
            if zlib.crc32(blob) != entry["crc"]:
                raise CorruptChunkError(f"a rollup's {name} is damaged: crc32 does not match")
            values = unpack_planes(bytes(blob), entry["shape"])
            if entry["of"] is None:
                arrays[name] = values
            else:
                by_generation.setdefault(entry["of"], {})[name] = values
        plain = {name: index[name] for name in _PLAIN}
        header = dict(index["header"])
    except (ValueError, KeyError, TypeError, zstandard.ZstdError) as error:
        raise CorruptChunkError(f"a rollup is not readable: {error}") from None
    plain["tokens"] = tuple(plain["tokens"])
    plain["live_biases"] = tuple(plain["live_biases"])
    return Rollup(plain, header, arrays, by_generation)


def _open(data: bytes) -> tuple[dict[str, Any], int]:
    try:
        magic, version, crc, size = _PREFIX.unpack_from(data)
    except struct.error:
        raise CorruptChunkError(f"a rollup of {len(data)} bytes has no prefix") from None
    packed = data[_PREFIX.size : _PREFIX.size + size]
    if magic != _MAGIC or version != _VERSION or zlib.crc32(packed) != crc:
        raise CorruptChunkError("a rollup's index is damaged, or of a version not known here")
    try:
        text = zstandard.ZstdDecompressor().decompress(packed, max_output_size=_MAX_INDEX_BYTES)
        index: dict[str, Any] = json.loads(text)
    except (ValueError, zstandard.ZstdError) as error:
        raise CorruptChunkError(f"a rollup's index is not readable: {error}") from None
    return index, _PREFIX.size + size
