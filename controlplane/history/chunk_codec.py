"""Sealed chunks: the frames of one engine and minute as one blob, lossless.

Layout, little endian: magic `MOEC` · u8 version · u32 crc32 of all that follows · u32 index bytes ·
index (JSON, zstd) · small arrays that every frame has, packed side by side · other arrays, one
after the other. The index holds the frames' headers and, per array and shape, the codec, the bytes
and which frames have it. Version 1 has every array apart.
"""

import json
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import zstandard
from pydantic import ValidationError

from contract.frame import FrameHeader
from contract.frame_arrays import Counts
from contract.frame_stack import Column, Stack
from contract.zstd_blocks import compress, decompress
from controlplane.errors import TrimtabError
from controlplane.history.packing import pack, unpack
from controlplane.history.series_packing import OCTAVES, pack_octaves

CODEC = "moec-2"
_MAGIC = b"MOEC"
_VERSION, _NONE_JOINED = 2, 1
_PREFIX = struct.Struct("<4sBI")
_INDEX = struct.Struct("<I")
_MAX_INDEX_BYTES = 64 * 1024 * 1024


class CorruptChunkError(TrimtabError):
    """A stored blob that cannot be read back; the rest of the history is not affected."""

    kind = "corrupt-chunk"


def encode_chunk(stack: Stack) -> bytes:
    """Pack frames of one engine, in the given order."""
    entries = [_entry(column) for column in stack.small.columns]
    blobs: list[bytes] = []
    for column in sorted(stack.large, key=lambda column: (column.name, column.values.shape)):
        codec, blob = pack(column.values)
        entry = _entry(column) | {"codec": codec, "bytes": len(blob)}
        if len(column.holders) < len(stack.headers):
            entry["in"] = list(column.holders)
        entries.append(entry)
        blobs.append(blob)
    small = pack_octaves(stack.small.values)
    headers = ",".join(header.model_dump_json() for header in stack.headers)
    arrays = json.dumps(entries, separators=(",", ":"))
    text = f'{{"headers":[{headers}],"arrays":{arrays},"joined":{len(small)}}}'
    index = compress(text.encode())
    parts = [_INDEX.pack(len(index)), index, small, *blobs]
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    return b"".join([_PREFIX.pack(_MAGIC, _VERSION, crc), *parts])


def _entry(column: Column) -> dict[str, Any]:
    return {"name": column.name, "shape": column.values.shape[1:]}


def decode_chunk(data: bytes) -> Stack:
    """The inverse of `encode_chunk`.

    Raises:
        CorruptChunkError: the bytes are damaged, or from a version that is not known here.
    """
    headers, index, offset = _open(data)
    columns: list[Column] = []
    try:
        small = _Joined(index, data[offset:], len(headers))
        offset += index.get("joined", 0)
        for entry in index["arrays"]:
            shape = entry["shape"]
            if "bytes" not in entry:
                columns.append(Column(entry["name"], range(len(headers)), small.next(shape)))
                continue
            blob = data[offset : offset + entry["bytes"]]
            offset += entry["bytes"]
            holders = _holders(entry.get("in"), len(headers))
            values = unpack(entry["codec"], blob, (len(holders), *shape))
            columns.append(Column(entry["name"], holders, values.astype(np.uint32)))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CorruptChunkError(f"a chunk's arrays are not readable: {error}") from None
    return Stack(headers, columns)


class _Joined:
    """The small arrays that lie side by side, in their order."""

    def __init__(self, index: dict[str, Any], rest: bytes, frames: int) -> None:
        shapes = [entry["shape"] for entry in index["arrays"] if "bytes" not in entry]
        cells = sum(math.prod(shape) for shape in shapes)
        blob = rest[: index.get("joined", 0)]
        self._values = unpack(OCTAVES, blob, (frames, cells)).astype(np.uint32)
        self._at = 0

    def next(self, shape: Sequence[int]) -> Counts:
        """The next one, [T, *shape]."""
        first, self._at = self._at, self._at + math.prod(shape)
        return self._values[:, first : self._at].reshape(len(self._values), *shape)


def _holders(listed: list[int] | None, frames: int) -> Sequence[int]:
    """The frames that an array is in; all of them when none are listed."""
    if listed is None:
        return range(frames)
    if listed != sorted(set(listed)) or not set(listed) <= set(range(frames)):
        raise ValueError(f"an array is said to be in frames {listed[:9]}, there are {frames}")
    return listed


def decode_headers(data: bytes) -> list[FrameHeader]:
    """The headers alone, without unpacking any array."""
    return _open(data)[0]


def _open(data: bytes) -> tuple[list[FrameHeader], dict[str, Any], int]:
    try:
        magic, version, crc = _PREFIX.unpack_from(data)
        (index_bytes,) = _INDEX.unpack_from(data, _PREFIX.size)
    except struct.error:
        raise CorruptChunkError(f"a chunk of {len(data)} bytes has no prefix") from None
    if magic != _MAGIC or version not in (_VERSION, _NONE_JOINED):
        raise CorruptChunkError(
            f"a chunk starts with {magic!r} version {version}, not {_MAGIC!r} up to {_VERSION}"
        )
    if zlib.crc32(memoryview(data)[_PREFIX.size :]) != crc:
        raise CorruptChunkError("a chunk's crc32 does not match: it was damaged on disk")
    start = _PREFIX.size + _INDEX.size
    try:
        text = decompress(data[start : start + index_bytes], _MAX_INDEX_BYTES)
        index: dict[str, Any] = json.loads(text)
        headers = [FrameHeader.model_validate(header) for header in index["headers"]]
        return headers, index, start + index_bytes
    except (ValueError, KeyError, TypeError, ValidationError, zstandard.ZstdError) as error:
        raise CorruptChunkError(f"a chunk's index is not readable: {error}") from None
