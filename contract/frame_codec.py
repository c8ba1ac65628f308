"""Packing of frames: a JSON header, then byte planes of every array, zstd-compressed.

Layout, little endian: magic `MOEF` · u8 codec version · u32 header bytes · u32 payload bytes ·
u32 crc32 of all that follows · header JSON (zstd) · payload (zstd).
The payload holds, array by array in the order of the header's `_arrays` [name, plane width, shape],
row totals (u64, one a row of the last axis: checksum and normaliser) and then the planes of the
u32 values (`frame_arrays`), each plane in zstd blocks of its own (`zstd_blocks`).
A frame decodes alone: no delta to an earlier frame, so a lost frame costs only itself.
numpy and zstandard are used by the codec and nowhere else in the contract: both planes need it.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import zstandard

from contract.frame import ARRAYS, MAX_FRAME_BYTES, FrameHeader
from contract.frame_arrays import Counts, FrameError, Listing, pack, unpack
from contract.frame_header import parse_header
from contract.frame_shapes import check_shapes, check_topology
from contract.zstd_blocks import Octets, compress, compress_parts, decompress

__all__ = [
    "Counts",
    "Frame",
    "FrameError",
    "decode",
    "decode_header",
    "encode",
    "payload_bytes",
    "saturated",
    "unfold",
]

MAGIC = b"MOEF"
CODEC_VERSION = 1
_PREFIX = struct.Struct("<4sBIII")
_MAX_HEADER_BYTES = 256 * 1024
MOST = 0xFFFFFFFF
"""The largest count that an array can hold."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A header and its arrays (u32, shapes by `ARRAYS`); absent arrays were not measured."""

    header: FrameHeader
    arrays: dict[str, Counts] = field(default_factory=dict)


def saturated(
    arrays: Mapping[str, npt.NDArray[np.int64]],
) -> tuple[dict[str, Counts], tuple[str, ...]]:
    """Counts as u32, and the names of the arrays in which one had to be cut at the bound.

    The names belong into the header: a cut count is a lower bound, and has to say so.
    """
    cut = tuple(name for name, values in arrays.items() if values.size and values.max() > MOST)
    packed = {
        name: (np.minimum(values, MOST) if name in cut else values).astype(np.uint32)
        for name, values in arrays.items()
    }
    return packed, cut


def encode(frame: Frame) -> bytes:
    """Pack a frame.

    Raises:
        FrameError: an array is unknown, has the wrong shape, or does not fit u32; or there are
            too many experts.
    """
    check_topology(frame.header)
    parts: list[bytes] = []
    listed: list[list[object]] = []
    sizes = frame.header.sizes()
    for name, values in frame.arrays.items():
        checked, width = _checked(sizes, name, values)
        listed.append([name, width, list(checked.shape)])
        parts += pack(checked, width)
    body = frame.header.model_dump(mode="json")
    body["_arrays"] = listed
    header = compress(json.dumps(body, separators=(",", ":")).encode())
    payload = compress_parts(parts)
    crc = zlib.crc32(payload, zlib.crc32(header))
    packed = _PREFIX.pack(MAGIC, CODEC_VERSION, len(header), len(payload), crc) + header + payload
    if len(packed) > MAX_FRAME_BYTES:
        raise FrameError(
            "too-large", f"frame of {len(packed)} bytes is over the bound of {MAX_FRAME_BYTES}"
        )
    return packed


def decode(data: bytes) -> Frame:
    """Unpack a frame; every byte string gives a frame or a `FrameError`, in bounded memory."""
    header, listed, payload = unfold(data)
    return Frame(header, unpack(payload, listed))


def decode_header(data: bytes) -> FrameHeader:
    """Read the header alone; the crc of the whole frame is still checked."""
    prefix = _split(data)
    return _parse_header(prefix[0])[0]


def payload_bytes(data: bytes) -> int:
    """What a frame's arrays inflate to, as its prefix declares; 0 where that is no frame's."""
    try:
        header_bytes = _PREFIX.unpack_from(data)[2]
        return max(0, zstandard.frame_content_size(data[_PREFIX.size + header_bytes :]))
    except (struct.error, zstandard.ZstdError):
        return 0


def unfold(data: bytes) -> tuple[FrameHeader, Listing, bytes]:
    """Header, list of arrays, and their bytes, not yet unpacked; for `contract.frame_stack`.

    Raises:
        FrameError: it is not a frame, or its arrays are not those of its topology.
    """
    head, rest = _split(data)
    header, listed = _parse_header(head)
    check_shapes(header, listed)
    return header, listed, _inflate(rest, listed.payload_bytes, "payload")


def _checked(sizes: dict[str, int], name: str, values: Counts) -> tuple[Counts, int]:
    """The values as they are packed, and how many byte planes hold them."""
    spec = ARRAYS.get(name)
    if spec is None:
        raise FrameError("array", f"unknown array {name!r}; known: {', '.join(sorted(ARRAYS))}")
    shape = tuple(sizes[symbol] for symbol in spec.dims)
    if values.shape != shape:
        raise FrameError("shape", f"{name} has shape {values.shape}, the frame says {shape}")
    top = int(values.max()) if values.size else 0
    if top > MOST or (values.size and values.dtype.kind != "u" and values.min() < 0):
        raise FrameError("range", f"{name} holds {top}, over the bound of {MOST}")
    packed = np.ascontiguousarray(values, dtype=np.uint32)
    return packed, max(1, (top.bit_length() + 7) // 8)


def _split(data: bytes) -> tuple[memoryview, memoryview]:
    """Header and payload, still packed."""
    if len(data) > MAX_FRAME_BYTES:
        raise FrameError("too-large", f"{len(data)} bytes, over the bound of {MAX_FRAME_BYTES}")
    if len(data) < _PREFIX.size:
        raise FrameError("truncated", f"{len(data)} bytes, a frame has at least {_PREFIX.size}")
    magic, version, header_bytes, payload_bytes, crc = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise FrameError("magic", f"starts with {magic!r}, a frame starts with {MAGIC!r}")
    if version != CODEC_VERSION:
        raise FrameError("codec", f"codec version {version}; this reader knows {CODEC_VERSION}")
    if len(data) != _PREFIX.size + header_bytes + payload_bytes:
        raise FrameError("truncated", f"{len(data)} bytes do not match the sizes in the prefix")
    rest = memoryview(data)[_PREFIX.size :]
    if zlib.crc32(rest) != crc:
        raise FrameError("crc", "crc32 does not match: the frame was damaged on its way")
    return rest[:header_bytes], rest[header_bytes:]


def _inflate(data: Octets, bound: int, what: str) -> bytes:
    try:
        size = zstandard.frame_content_size(data)
        if size < 0 or size > bound:
            raise FrameError("too-large", f"{what} inflates to {size} bytes, the bound is {bound}")
        return decompress(data, bound)
    except zstandard.ZstdError as error:
        raise FrameError("zstd", f"{what} is not zstd: {error}") from None


def _parse_header(data: Octets) -> tuple[FrameHeader, Listing]:
    text = _inflate(data, _MAX_HEADER_BYTES, "header")
    return parse_header(text)
