"""Sealed chunks: the frames of one engine and minute as one blob, lossless.

Layout, little endian: magic `MOEC` · u8 version · u32 crc32 of all that follows · u32 index bytes ·
index (JSON, zstd) · packed arrays, one after the other. The index holds the frames' headers and,
per array and shape, which frames have it, the codec and the bytes.
"""

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import zstandard
from pydantic import ValidationError

from contract.frame import FrameHeader
from contract.frame_codec import Counts, Frame
from controlplane.errors import TrimtabError
from controlplane.history.packing import pack, unpack

CODEC = "moec-1"
_MAGIC = b"MOEC"
_VERSION = 1
_PREFIX = struct.Struct("<4sBI")
_INDEX = struct.Struct("<I")
_MAX_INDEX_BYTES = 64 * 1024 * 1024


class CorruptChunkError(TrimtabError):
    """A stored blob that cannot be read back; the rest of the history is not affected."""

    kind = "corrupt-chunk"


def encode_chunk(frames: Sequence[Frame]) -> bytes:
    """Pack frames of one engine, in the given order."""
    entries: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    for (name, shape), holders in sorted(_holders(frames).items()):
        stacked = np.stack([frames[index].arrays[name] for index in holders])
        codec, blob = pack(stacked)
        entries.append(
            {"name": name, "shape": shape, "in": holders, "codec": codec, "bytes": len(blob)}
        )
        blobs.append(blob)
    headers = [frame.header.model_dump(mode="json") for frame in frames]
    text = json.dumps({"headers": headers, "arrays": entries}, separators=(",", ":"))
    index = zstandard.ZstdCompressor(level=9).compress(text.encode())
    rest = _INDEX.pack(len(index)) + index + b"".join(blobs)
    return _PREFIX.pack(_MAGIC, _VERSION, zlib.crc32(rest)) + rest


def decode_chunk(data: bytes) -> list[Frame]:
    """The inverse of `encode_chunk`.

    Raises:
        CorruptChunkError: the bytes are damaged, or from a version that is not known here.
    """
    headers, entries, offset = _open(data)
    frames = [Frame(header, {}) for header in headers]
    try:
        for entry in entries:
            blob = data[offset : offset + entry["bytes"]]
            offset += entry["bytes"]
            holders: list[int] = entry["in"]
            stacked = unpack(entry["codec"], blob, (len(holders), *entry["shape"]))
            counts: Counts = stacked.astype(np.uint32)
            for position, holder in enumerate(holders):
                frames[holder].arrays[entry["name"]] = counts[position]
    except (ValueError, KeyError, IndexError, TypeError, zstandard.ZstdError) as error:
        raise CorruptChunkError(f"a chunk's arrays are not readable: {error}") from None
    return frames


def decode_headers(data: bytes) -> list[FrameHeader]:
    """The headers alone, without unpacking any array."""
    return _open(data)[0]


def _holders(frames: Sequence[Frame]) -> dict[tuple[str, tuple[int, ...]], list[int]]:
    holders: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for index, frame in enumerate(frames):
        for name, values in frame.arrays.items():
            holders.setdefault((name, values.shape), []).append(index)
    return holders


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
        text = zstandard.ZstdDecompressor().decompress(
            data[start : start + index_bytes], max_output_size=_MAX_INDEX_BYTES
        )
        index = json.loads(text)
        headers = [FrameHeader.model_validate(header) for header in index["headers"]]
        return headers, index["arrays"], start + index_bytes
    except (ValueError, KeyError, TypeError, ValidationError, zstandard.ZstdError) as error:
        raise CorruptChunkError(f"a chunk's index is not readable: {error}") from None
