"""Rollups: an `EngineWindow` as a blob, every array readable alone.

Layout, little endian: magic `MOEW` · u8 version · u32 crc32 of the index · u32 index bytes ·
index (JSON, zstd) · arrays as byte planes. Values are absolute, so rollups add up.
"""

import json
import struct
import zlib
from collections.abc import Collection
from dataclasses import fields
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
_PLAIN = tuple(field.name for field in fields(EngineWindow) if field.name not in _NOT_PLAIN)


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


def decode_window(data: bytes, *, only: Collection[str] | None = None) -> EngineWindow:
    """The inverse; `only` names the arrays to unpack, None unpacks all.

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
        header = FrameHeader.model_validate(index["header"])
    except (ValueError, KeyError, TypeError, ValidationError, zstandard.ZstdError) as error:
        raise CorruptChunkError(f"a rollup is not readable: {error}") from None
    plain["tokens"] = tuple(plain["tokens"])
    plain["live_biases"] = tuple(plain["live_biases"])
    return EngineWindow(header=header, arrays=arrays, by_generation=by_generation, **plain)


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
