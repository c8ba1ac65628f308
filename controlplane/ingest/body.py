"""A request body within bounds, as sent and after decompression."""

import zlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

import zstandard

from controlplane.errors import InvalidInputError, TrimtabError

IDENTITY = "identity"
MAX_MEMBERS = 1024
"""Compressed members that a body may be made of, one after the other (RFC 1952, RFC 8878)."""


class BodyTooLargeError(TrimtabError):
    """A body over its bound; the client must not send it again."""

    status = 413
    kind = "body-too-large"


class UnsupportedBodyError(TrimtabError):
    """A content type or encoding that this receiver does not read."""

    status = 415
    kind = "unsupported-body"


class UndecodableBodyError(InvalidInputError):
    """A body that is not what its headers say."""

    status = 400
    kind = "undecodable-body"


def too_large(size: int, bound: int, what: str) -> BodyTooLargeError:
    """The error for a body of at least `size` bytes."""
    return BodyTooLargeError(
        f"{what} has at least {size} bytes, the bound is {bound}",
        field=what, value=size, bound=bound,
    )  # fmt: skip


def inflate(data: bytes, encoding: str, bound: int) -> bytes:
    """Undo `Content-Encoding`, of every member; all of the body is read.

    Of output, no more is held than `bound` and what a few KiB of input can become.

    Raises:
        BodyTooLargeError: the output is larger.
        UnsupportedBodyError: an encoding other than gzip, zstd, identity.
        UndecodableBodyError: not that encoding after all, or cut short, or more follows.
    """
    name = encoding.strip().lower() or IDENTITY
    codec = _CODECS.get(name)
    if codec is None and name != IDENTITY:
        raise UnsupportedBodyError(
            f"content encoding {name!r} is not read here; use gzip, zstd or identity",
            field="Content-Encoding", value=name, bound=[*_CODECS, IDENTITY],
        )  # fmt: skip
    try:
        output = data if codec is None else _members(data, bound, codec)
    except (zlib.error, zstandard.ZstdError, EOFError) as error:
        raise UndecodableBodyError(f"the body is not {name}: {error}") from None
    if len(output) > bound:
        raise too_large(len(output), bound, "inflated body")
    return output


class _Inflater(Protocol):
    """What undoes one member; it knows where that ends, and what lies behind it."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: memoryview, /) -> bytes: ...


class _Codec(NamedTuple):
    """How members are undone: what undoes the next one, and how much it is given at a time.

    So much input, that what it can become is bounded: 1032 bytes a byte of gzip, and of zstd
    128 KiB every four.
    """

    begin: Callable[[], _Inflater]
    piece_bytes: int


def _gunzip() -> _Inflater:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _unzstd() -> _Inflater:
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()


_CODECS = {"gzip": _Codec(_gunzip, 16 * 1024), "zstd": _Codec(_unzstd, 1024)}


def _members(data: bytes, bound: int, codec: _Codec) -> bytes:
    """All members together; where they are over the bound, as far as was read."""
    rest = memoryview(data)
    output: list[bytes] = []
    size = 0
    for _ in range(MAX_MEMBERS):
        inflater = codec.begin()
        while size <= bound and not inflater.eof:
            if not rest:
                raise EOFError("it ends early")
            output.append(inflater.decompress(rest[: codec.piece_bytes]))
            size += len(output[-1])
            given = min(codec.piece_bytes, len(rest))
            rest = rest[given - len(inflater.unused_data) :]
        if size > bound or not rest:
            return b"".join(output)
    raise EOFError(f"more than {MAX_MEMBERS} members, one after the other")
