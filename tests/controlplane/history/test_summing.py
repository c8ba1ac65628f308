"""Sums of frames."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.history.summing import WindowSum, sum_frames
from tests.support.frames import START, make_frame

NAMES = ("assignments", "overflow", "ttft", "bucket_assignments")


def _frames(count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return [make_frame(i, fill=9, rng=rng, arrays=NAMES) for i in range(count)]


def test_counts_scalars_and_time_add_up():
    frames = _frames(3)
    window = sum_frames("e0", START, START + 3, frames, missing=2)
    assert window is not None
    expected = np.sum([frame.arrays["assignments"] for frame in frames], axis=0)
    assert np.array_equal(window.arrays["assignments"], expected)
    assert (window.frames, window.missing, window.covered_seconds) == (3, 2, 3.0)
    assert (window.tokens, window.steps, window.sequences) == ((15, 21), 9, 6)
    assert window.header.sequence == 2


def test_no_frame_is_no_window():
    assert sum_frames("e0", 0, 1, []) is None


def test_generation_arrays_follow_their_generation_not_their_slot():
    old = make_frame(0, generations=(1, 0), arrays=("ttft",))
    new = make_frame(1, generations=(2, 1, -1), arrays=("ttft",))
    window = sum_frames("e0", START, START + 2, [old, new])
    assert window is not None
    assert {key: int(value["ttft"][0]) for key, value in window.by_generation.items()} == {
        1: 2, 0: 1, 2: 1, -1: 1,
    }  # fmt: skip


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(0, 6))
def test_a_sum_of_parts_is_the_sum_of_the_whole(count, cut):
    frames = _frames(count)
    whole = sum_frames("e0", START, START + count, frames)
    total = WindowSum()
    for part in (frames[:cut], frames[cut:]):
        window = sum_frames("e0", START, START + count, part)
        if window is not None:
            total.merge(window)
    merged = total.window("e0", START, START + count)
    assert whole is not None
    assert merged is not None
    assert merged.tokens == whole.tokens
    for name, values in whole.arrays.items():
        assert np.array_equal(merged.arrays[name], values)
    for generation, arrays in whole.by_generation.items():
        for name, values in arrays.items():
            assert np.array_equal(merged.by_generation[generation][name], values)


def test_another_topology_restarts_its_arrays():
    window = sum_frames(
        "e0", START, START + 2,
        [make_frame(0, ranks=2, arrays=("card_assignments",)),
         make_frame(1, ranks=4, arrays=("card_assignments",))],
    )  # fmt: skip
    assert window is not None
    assert window.arrays["card_assignments"].shape == (2, 4)
    assert window.arrays["card_assignments"].sum() == 8


def test_another_model_is_left_out_and_counted_whatever_the_order():
    old = [make_frame(i, experts=4) for i in range(3)]
    new = [make_frame(i, experts=8, layers=3) for i in range(3, 5)]
    older = [make_frame(i, experts=8, layers=3, started=START - 2 + i) for i in range(2)]
    parts = [sum_frames("e0", START, START + 9, part) for part in (older, old, new)]
    for order in itertools.permutations(parts):
        total = WindowSum()
        for part in order:
            assert part is not None
            total.merge(part)
        window = total.window("e0", START - 2, START + 5)
        assert window is not None
        assert (window.frames, window.left_out) == (7, 3)
        assert window.arrays["assignments"].tolist() == np.full((2, 3, 8), 4).tolist()
        assert window.tokens == (35, 49)
    mixed = sum_frames("e0", START - 2, START + 5, [*older, *old, *new])
    assert mixed is not None
    assert (mixed.frames, mixed.left_out) == (7, 3)
    assert mixed.arrays["overflow"].tolist() == [4, 4, 4]


def test_frames_themselves_are_not_changed():
    frames = _frames(2)
    before = frames[0].arrays["assignments"].copy()
    sum_frames("e0", START, START + 2, frames)
    assert np.array_equal(frames[0].arrays["assignments"], before)


def test_a_sum_beyond_32_bits_is_exact():
    frames = [make_frame(i, fill=2**32 - 1, arrays=("overflow",)) for i in range(3)]
    window = sum_frames("e0", START, START + 3, frames)
    assert window is not None
    assert window.arrays["overflow"].tolist() == [3 * (2**32 - 1)] * 2
