"""Bodies that are compressed: every byte is read, within one bound."""

import gzip
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from controlplane.ingest.body import MAX_MEMBERS, BodyTooLargeError, UndecodableBodyError, inflate

BOUND = 100_000
PACKED = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("encoding", PACKED)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=4))
def test_every_member_is_read(encoding, parts):
    body = b"".join(map(PACKED[encoding], parts))
    assert inflate(body, encoding, BOUND) == b"".join(parts)


@pytest.mark.parametrize("encoding", PACKED)
@given(st.integers(0, 10_000), st.booleans())
def test_a_body_that_was_cut_is_refused_wherever_it_was_cut(encoding, at, is_second):
    packed = PACKED[encoding](bytes(range(256)) * 30)
    body = packed * is_second + packed[: 1 + at % (len(packed) - 1)]
    if body in (packed, packed + packed):
        return
    with pytest.raises(UndecodableBodyError, match="ends early"):
        inflate(body, encoding, BOUND)


def test_a_stream_that_was_cut_after_a_block_is_refused():
    stream = zstandard.ZstdCompressor().compressobj()
    begun = stream.compress(b"x" * 1000) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    with pytest.raises(UndecodableBodyError, match="ends early"):
        inflate(begun, "zstd", BOUND)


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("garbage", [b"garbage", b"\0" * 40])
def test_what_follows_the_last_member_has_to_be_one(encoding, garbage):
    with pytest.raises(UndecodableBodyError, match=f"not {encoding}"):
        inflate(PACKED[encoding](b"x") + garbage, encoding, BOUND)


@pytest.mark.parametrize("encoding", PACKED)
def test_the_bound_is_of_all_members_together(encoding):
    member = PACKED[encoding](b"x" * (BOUND // 2))
    assert len(inflate(member * 2, encoding, BOUND)) == BOUND
    with pytest.raises(BodyTooLargeError):
        inflate(member * 3, encoding, BOUND)


@pytest.mark.parametrize("encoding", PACKED)
def test_there_is_a_bound_on_members(encoding):
    empty = PACKED[encoding](b"")
    assert inflate(empty * MAX_MEMBERS, encoding, BOUND) == b""
    with pytest.raises(UndecodableBodyError, match=str(MAX_MEMBERS)):
        inflate(empty * (MAX_MEMBERS + 1), encoding, BOUND)


@pytest.mark.parametrize("encoding", PACKED)
def test_a_bomb_is_not_unpacked(encoding):
    bomb = PACKED[encoding](b"\0" * (256 << 20))
    tracemalloc.start()
    with pytest.raises(BodyTooLargeError):
        inflate(bomb, encoding, BOUND)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 << 20
