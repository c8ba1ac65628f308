"""Stacks of frames: the same as the frames one by one, whatever each of them holds."""

import struct
import zlib

import numpy as np
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.frame import ARRAYS
from contract.frame_arrays import FrameError
from contract.frame_codec import Frame, decode, encode
from contract.frame_stack import SMALL, decode_stack, stack_frames, verify
from tests.support.frames import make_frame

NAMES = ("assignments", "overflow", "executed", "ttft", "a2a_layer", "required_max")


@st.composite
def some_frames(draw) -> list[Frame]:
    """Frames of one engine whose arrays, shapes and widths differ from second to second."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [
        make_frame(
            i,
            arrays=draw(st.lists(st.sampled_from(NAMES), unique=True)),
            layers=draw(st.sampled_from([0, 1, 3])),
            experts=draw(st.sampled_from([4, 500])),
            ranks=draw(st.integers(1, 3)),
            fill=draw(st.sampled_from([0, 1, 300, 70_000, 20_000_000])),
            rng=rng,
        )
        for i in range(draw(st.integers(0, 6)))
    ]


def _same(left: Frame, right: Frame) -> bool:
    return (
        left.header == right.header
        and left.arrays.keys() == right.arrays.keys()
        and all(np.array_equal(left.arrays[name], right.arrays[name]) for name in left.arrays)
        and all(values.dtype == np.uint32 for values in left.arrays.values())
    )


@settings(deadline=None)
@given(some_frames())
def test_a_stack_gives_the_frames_that_it_is_of(frames):
    stack = stack_frames(frames)
    assert all(_same(*pair) for pair in zip(stack.frames(), frames, strict=True))
    assert stack.numbers == sum(v.size for frame in frames for v in frame.arrays.values())


@settings(deadline=None)
@given(some_frames())
def test_frames_decoded_together_are_those_decoded_one_by_one(frames):
    packed = [encode(frame) for frame in frames]
    stack, damaged = decode_stack(packed)
    assert not damaged
    one_by_one = [decode(data) for data in packed]
    assert all(_same(*pair) for pair in zip(stack.frames(), one_by_one, strict=True))


def _with_another_value(packed: bytes, at: int) -> bytes:
    """The frame with one byte of its values changed, under a right crc."""
    prefix = struct.Struct("<4sBIII")
    magic, version, header_bytes, _, _ = prefix.unpack_from(packed)
    header = packed[prefix.size : prefix.size + header_bytes]
    payload = bytearray(zstandard.decompress(packed[prefix.size + header_bytes :]))
    payload[at] ^= 1
    packed_again = zstandard.compress(bytes(payload))
    crc = zlib.crc32(packed_again, zlib.crc32(header))
    return prefix.pack(magic, version, len(header), len(packed_again), crc) + header + packed_again


@settings(deadline=None)
@given(some_frames(), st.data())
def test_frames_verified_together_are_those_that_decode(frames, data):
    packed = [encode(frame) for frame in frames]
    for index, frame in enumerate(frames):
        if any(values.size for values in frame.arrays.values()) and data.draw(st.booleans()):
            packed[index] = _with_another_value(packed[index], data.draw(st.sampled_from([-1, 0])))
    expected: list[object] = []
    for one in packed:
        try:
            expected.append(decode(one).header)
        except FrameError as error:
            expected.append(str(error))
    found = [str(one) if isinstance(one, FrameError) else one for one in verify(packed)]
    assert found == expected


def test_what_is_verified_does_not_depend_on_how_much_is_held_at_once(monkeypatch):
    packed = [encode(make_frame(i, layers=3, experts=500, fill=9)) for i in range(5)]
    packed[3] = _with_another_value(packed[3], -1)
    monkeypatch.setattr("contract.frame_stack._CHECKED_BYTES", 1)
    assert [isinstance(found, FrameError) for found in verify(packed)] == [False] * 3 + [
        True,
        False,
    ]


def test_an_array_is_held_as_narrow_as_its_counts():
    stack, _ = decode_stack([encode(make_frame(i, fill=fill)) for i, fill in enumerate((3, 900))])
    widths = {column.name: column.values.dtype.itemsize for column in stack.columns}
    assert widths["assignments"] == 2
    narrow, _ = decode_stack([encode(make_frame(i, fill=3)) for i in range(2)])
    assert {column.values.dtype.itemsize for column in narrow.columns} == {1}


def test_a_damaged_frame_is_named_and_the_others_are_stacked():
    packed = [bytearray(encode(make_frame(i))) for i in range(4)]
    packed[1][-1] ^= 1
    packed[2] = packed[2][:10]
    stack, damaged = decode_stack([bytes(data) for data in packed])
    assert {index: error.kind for index, error in damaged.items()} == {1: "crc", 2: "truncated"}
    assert [frame.header.sequence for frame in stack.frames()] == [0, 3]


def test_what_a_newer_minor_adds_is_left_out(monkeypatch):
    packed = encode(make_frame(arrays=("assignments", "overflow")))
    monkeypatch.delitem(ARRAYS, "overflow")
    stack, damaged = decode_stack([packed])
    assert not damaged
    assert [column.name for column in stack.columns] == ["assignments"]


@settings(deadline=None)
@given(some_frames())
def test_small_arrays_of_every_frame_lie_side_by_side_and_others_do_not(frames):
    stack = stack_frames(frames)
    end = 0
    for column in stack.small.columns:
        begin, end = end, end + column.values[0].size
        cells = stack.small.values[:, begin:end]
        assert list(column.holders) == list(range(len(frames)))
        assert np.array_equal(cells, column.values.reshape(len(frames), -1))
    assert stack.small.values.shape == (len(frames), end)
    left = {id(column) for column in stack.columns} - {id(c) for c in stack.small.columns}
    for column in stack.columns:
        if id(column) in left:
            assert len(column.holders) < len(frames) or column.values[0].size > SMALL
