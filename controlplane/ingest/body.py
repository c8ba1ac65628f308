"""A request body within bounds, as sent and after decompression."""

import zlib

import zstandard

from controlplane.errors import InvalidInputError, TrimtabError

IDENTITY = "identity"
_CHUNK = 256 * 1024


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
    """Undo `Content-Encoding`; never holds more than `bound` bytes of output.

    Raises:
        BodyTooLargeError: the output is larger.
        UnsupportedBodyError: an encoding other than gzip, zstd, identity.
        UndecodableBodyError: not that encoding after all.
    """
    match encoding.strip().lower() or IDENTITY:
        case "identity":
            output = data
        case "gzip":
            output = _gunzip(data, bound)
        case "zstd":
            output = _unzstd(data, bound)
        case other:
            raise UnsupportedBodyError(
                f"content encoding {other!r} is not read here; use gzip, zstd or identity",
                field="Content-Encoding", value=other, bound=["gzip", "zstd", IDENTITY],
            )  # fmt: skip
    if len(output) > bound:
        raise too_large(len(output), bound, "inflated body")
    return output


def _gunzip(data: bytes, bound: int) -> bytes:
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        output = inflater.decompress(data, bound + 1)
    except zlib.error as error:
        raise UndecodableBodyError(f"the body is not gzip: {error}") from None
    if len(output) <= bound and not inflater.eof:
        raise UndecodableBodyError("the body is not gzip: it ends early")
    return output


def _unzstd(data: bytes, bound: int) -> bytes:
    output = bytearray()
    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(data) as reader:
            while len(output) <= bound:
                piece = reader.read(min(_CHUNK, bound + 1 - len(output)))
                if not piece:
                    break
                output += piece
    except zstandard.ZstdError as error:
        raise UndecodableBodyError(f"the body is not zstd: {error}") from None
    return bytes(output)
