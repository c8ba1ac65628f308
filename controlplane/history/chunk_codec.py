"""Sealed chunks: the frames of one engine and minute as one blob, lossless.

Layout, little endian: magic `MOEC` · u8 version · u32 crc32 of all that follows · u32 index bytes ·
index (JSON, zstd) · packed arrays, one after the other. The index holds the frames' headers and,
per array and shape, which frames have it, the codec and the bytes.
"""

import json
import struct
import zlib
from typing import Any

import numpy as np
import zstandard
from pydantic import ValidationError

from contract.frame import FrameHeader
from contract.frame_stack import Column, Stack
from contract.zstd_blocks import compress, decompress
from controlplane.errors import TrimtabError
from controlplane.history.packing import pack, unpack

CODEC = "moec-1"
_MAGIC = b"MOEC"
_VERSION = 1
_PREFIX = struct.Struct("<4sBI")
_INDEX = struct.Struct("<I")
_MAX_INDEX_BYTES = 64 * 1024 * 1024
_LEVEL = 3


class CorruptChunkError(TrimtabError):
    """A stored blob that cannot be read back; the rest of the history is not affected."""

    kind = "corrupt-chunk"


def encode_chunk(stack: Stack) -> bytes:
    """Pack frames of one engine, in the given order."""
    entries: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    for column in sorted(stack.columns, key=lambda column: (column.name, column.values.shape)):
        codec, blob = pack(column.values)
        shape = column.values.shape[1:]
        entries.append(
            {"name": column.name, "shape": shape, "in": list(column.holders), "codec": codec,
             "bytes": len(blob)}
        )  # fmt: skip
        blobs.append(blob)
    headers = ",".join(header.model_dump_json() for header in stack.headers)
    arrays = json.dumps(entries, separators=(",", ":"))
    text = f'{{"headers":[{headers}],"arrays":{arrays}}}'
    index = compress(text.encode(), _LEVEL)
    rest = _INDEX.pack(len(index)) + index + b"".join(blobs)
    return _PREFIX.pack(_MAGIC, _VERSION, zlib.crc32(rest)) + rest


def decode_chunk(data: bytes) -> Stack:
    """The inverse of `encode_chunk`.

    Raises:
        CorruptChunkError: the bytes are damaged, or from a version that is not known here.
    """
    headers, entries, offset = _open(data)
    columns: list[Column] = []
    try:
        for entry in entries:
            blob = data[offset : offset + entry["bytes"]]
            offset += entry["bytes"]
            holders = _holders(entry["in"], len(headers))
            values = unpack(entry["codec"], blob, (len(holders), *entry["shape"]))
            columns.append(Column(entry["name"], holders, values.astype(np.uint32)))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise CorruptChunkError(f"a chunk's arrays are not readable: {error}") from None
    return Stack(headers, columns)


def _holders(listed: list[int], frames: int) -> list[int]:
    if listed != sorted(set(listed)) or not set(listed) <= set(range(frames)):
        raise ValueError(f"an array is said to be in frames {listed[:9]}, there are {frames}")
    return listed


def decode_headers(data: bytes) -> list[FrameHeader]:
    """The headers alone, without unpacking any array."""
    return _open(data)[0]


def _open(data: bytes) -> tuple[list[FrameHeader], list[dict[str, Any]], int]:
    try:
        magic, version, crc = _PREFIX.unpack_from(data)
        (index_bytes,) = _INDEX.unpack_from(data, _PREFIX.size)
    except struct.error:
        raise CorruptChunkError(f"a chunk of {len(data)} bytes has no prefix") from None
    if magic != _MAGIC or version != _VERSION:
        raise CorruptChunkError(
            f"a chunk starts with {magic!r} version {version}, not {_MAGIC!r} version {_VERSION}"
        )
    if zlib.crc32(memoryview(data)[_PREFIX.size :]) != crc:
        raise CorruptChunkError("a chunk's crc32 does not match: it was damaged on disk")
    start = _PREFIX.size + _INDEX.size
    try:
        text = decompress(data[start : start + index_bytes], _MAX_INDEX_BYTES)
        index = json.loads(text)
        headers = [FrameHeader.model_validate(header) for header in index["headers"]]
        return headers, index["arrays"], start + index_bytes
    except (ValueError, KeyError, TypeError, ValidationError, zstandard.ZstdError) as error:
        raise CorruptChunkError(f"a chunk's index is not readable: {error}") from None
