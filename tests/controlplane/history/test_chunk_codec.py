"""Sealed chunks and rollups: lossless; damage is an error, never a wrong number."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.frame import ARRAYS
from contract.frame_codec import encode
from contract.frame_stack import SMALL, Column, Stack, decode_stack, stack_frames
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


_EXTENTS = st.lists(st.sampled_from([0, 0, 1, 2, 24]), min_size=1, max_size=4)


@settings(deadline=None)
@given(st.integers(1, 4), st.lists(_EXTENTS, min_size=1, max_size=4), st.data())
def test_chunks_are_lossless_for_arrays_of_any_shape_also_empty_ones(count, shapes, data):
    headers = [make_frame(i, arrays=()).header for i in range(count)]
    columns = []
    for name, shape in zip(ARRAYS, shapes, strict=False):
        holders = range(data.draw(st.integers(1, count)))
        values = np.arange(len(holders) * math.prod(shape), dtype=np.uint32)
        columns.append(Column(name, holders, values.reshape(len(holders), *shape)))
    back = {
        column.name: column
        for column in decode_chunk(encode_chunk(Stack(headers, columns))).columns
    }
    for column in columns:
        assert list(back[column.name].holders) == list(column.holders)
        assert back[column.name].values.shape == column.values.shape
        assert np.array_equal(back[column.name].values, column.values)


@settings(deadline=None)
@given(st.lists(_EXTENTS, min_size=1, max_size=4))
def test_windows_are_lossless_for_arrays_of_any_shape_also_empty_ones(shapes):
    window = sum_frames("e0", START, START + 1, [make_frame(arrays=())])
    assert window is not None
    arrays = {
        name: np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
        for name, shape in zip(ARRAYS, shapes, strict=False)
    }
    full = replace(window, arrays=arrays, by_generation={1: arrays})
    back = decode_window(encode_window(full))
    for held in (back.arrays, back.by_generation[1]):
        assert {name: values.shape for name, values in held.items()} == {
            name: values.shape for name, values in arrays.items()
        }
        assert all(np.array_equal(held[name], values) for name, values in arrays.items())


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ({"generations": ()}, ("assignments", "ttft")),
        ({"layers": 0}, ("assignments", "a2a_layer", "overflow_at_rung")),
        ({"layers": 0, "generations": ()}, tuple(ARRAYS)),
    ],
)
def test_frames_with_empty_arrays_come_back_from_their_bytes_a_chunk_and_a_rollup(header, names):
    frames = [make_frame(i, arrays=names, **header) for i in range(5)]
    stack, damaged = decode_stack([encode(frame) for frame in frames])
    assert damaged == {}
    back = decode_chunk(encode_chunk(stack)).frames()
    assert all(_same(*pair) for pair in zip(back, frames, strict=True))
    window = sum_frames("e0", START, START + 10, frames)
    assert window is not None
    arrays = decode_window(encode_window(window)).arrays
    assert {n: a.shape for n, a in arrays.items()} == {n: a.shape for n, a in window.arrays.items()}


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
