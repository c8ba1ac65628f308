"""Sealed chunks and rollups: lossless; damage is an error, never a wrong number."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.frame import ARRAYS
from contract.frame_stack import SMALL, Column, Stack, stack_frames
from controlplane.history.chunk_codec import (
    CorruptChunkError,
    decode_chunk,
    decode_headers,
    encode_chunk,
)
from controlplane.history.planes import pack_planes
from controlplane.history.summing import sum_frames
from controlplane.history.window_codec import decode_window, encode_window
from tests.support.frames import START, make_frame


def _frames(count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return [
        make_frame(
            i, fill=5, rng=rng, layers=3, experts=32, ranks=2 if i < 3 else 4,
            arrays=[name for name, spec in ARRAYS.items() if spec.every_second or i % 10 == 0],
            generations=(2, 1, -1) if i > 1 else (1,), live_bias="b" * 64, unknown_later=1,
        )
        for i in range(count)
    ]  # fmt: skip


_SMALL = encode_chunk(stack_frames(_frames(3)))


def _same(left, right) -> bool:
    return (
        left.header == right.header
        and left.arrays.keys() == right.arrays.keys()
        and all(np.array_equal(left.arrays[name], right.arrays[name]) for name in left.arrays)
    )


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_chunks_are_lossless(count, seed):
    frames = _frames(count, seed)
    data = encode_chunk(stack_frames(frames))
    assert all(_same(*pair) for pair in zip(decode_chunk(data).frames(), frames, strict=True))
    assert decode_headers(data) == [frame.header for frame in frames]


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_clean_error(data):
    for decode in (decode_chunk, decode_window):
        with pytest.raises(CorruptChunkError):
            decode(data)


@settings(deadline=None)
@given(st.data())
def test_a_flipped_byte_is_noticed(data):
    good = bytearray(_SMALL)
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptChunkError):
        decode_chunk(bytes(good))


def test_windows_are_lossless_whole_and_in_part():
    window = sum_frames("e0", START, START + 10, _frames(10), missing=3)
    assert window is not None
    data = encode_window(window)
    back = decode_window(data)
    assert back.header == window.header
    for name in ("frames", "missing", "tokens", "covered_seconds", "live_biases", "start"):
        assert getattr(back, name) == getattr(window, name)
    assert back.arrays.keys() == window.arrays.keys()
    for name, values in window.arrays.items():
        assert np.array_equal(back.arrays[name], values)
    assert back.by_generation.keys() == window.by_generation.keys()
    for generation, arrays in window.by_generation.items():
        for name, values in arrays.items():
            assert np.array_equal(back.by_generation[generation][name], values)
    part = decode_window(data, only={"assignments"})
    assert set(part.arrays) == {"assignments"}
    assert part.by_generation == {}


def test_a_large_array_of_a_rollup_is_readable_without_the_damaged_rest():
    frames = [make_frame(i, layers=9, experts=300, fill=i + 1) for i in range(2)]
    window = sum_frames("e0", START, START + 10, frames)
    assert window is not None
    good = encode_window(window)
    sizes = {name: values.size for name, values in window.arrays.items()}
    assert [name for name, size in sizes.items() if size > SMALL] == ["assignments"]
    large = len(pack_planes(window.arrays["assignments"]))
    for at, damaged, others in (
        (len(good) - 1, "assignments", "overflow"),
        (len(good) - large - 1, "overflow", "assignments"),
    ):
        data = bytearray(good)
        data[at] ^= 1
        with pytest.raises(CorruptChunkError, match="crc32"):
            decode_window(bytes(data), only={damaged})
        assert np.array_equal(
            decode_window(bytes(data), only={others}).arrays[others], window.arrays[others]
        )


def test_a_chunk_that_names_frames_that_it_has_not_is_corrupt():
    stack = stack_frames(_frames(3))
    lying = [Column(c.name, [0, 7][: len(c.holders)], c.values[:2]) for c in stack.columns]
    with pytest.raises(CorruptChunkError, match="there are 3"):
        decode_chunk(encode_chunk(Stack(stack.headers, lying)))
