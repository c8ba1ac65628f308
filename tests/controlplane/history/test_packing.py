"""Packing of arrays: lossless whatever the counts, and close to the entropy where it matters."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from controlplane.history.packing import RESIDUAL, RESIDUAL32, pack, unpack
from controlplane.history.planes import pack_planes, unpack_planes
from controlplane.history.series_packing import OCTAVES, SERIES, pack_octaves
from controlplane.history.share_residual import precision_for, residuals, restore

SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)


@settings(deadline=None)
@given(SHAPES.flatmap(lambda shape: arrays.arrays(np.uint64, shape)))
def test_planes_are_lossless(values):
    assert np.array_equal(unpack_planes(pack_planes(values), values.shape), values)


@settings(deadline=None)
@given(
    SHAPES.flatmap(
        lambda shape: arrays.arrays(np.uint64, shape, elements=st.integers(0, 2**32 - 1))
    )
)
def test_packing_is_lossless(values):
    codec, data = pack(values)
    assert np.array_equal(unpack(codec, data, values.shape), values)


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 3, 200, 60_000, 5_000_000]),
    st.sampled_from([0.2, 0.8, 1.0]),
)
def test_loads_are_lossless_through_residuals(seed, mean, present):
    rng = np.random.default_rng(seed)
    drawn = rng.poisson(mean, (5, 3, 16)) * (rng.random((5, 3, 16)) < present)
    counts = drawn.astype(np.uint64)
    totals = counts.sum(axis=-1)
    precision = precision_for(counts, totals)
    assert precision is not None
    residual = residuals(counts, totals, precision)
    assert np.array_equal(restore(counts[0], totals, residual, precision), counts)


@pytest.mark.parametrize(("mean", "width"), [(2_000, 2), (40_000, 4)])
def test_residuals_are_held_as_narrow_as_they_surely_are(mean, width):
    counts = np.random.default_rng(0).poisson(mean, (5, 3, 16)).astype(np.uint64)
    assert residuals(counts, counts.sum(axis=-1), np.float32).itemsize == width


@settings(deadline=None)
@given(
    arrays.arrays(
        np.uint64, (6, 2, 16), elements=st.integers(0, 3) | st.integers(0, 2**14), fill=st.just(0)
    )
)
def test_shares_that_change_at_once_are_lossless_through_residuals(counts):
    totals = counts.sum(axis=-1)
    residual = residuals(counts, totals, np.float32)
    assert np.array_equal(restore(counts[0], totals, residual, np.float32), counts)


@pytest.mark.parametrize(
    ("largest", "precision"), [(2**24 // 4 - 1, np.float32), (2**24 // 4, np.float64)]
)
def test_single_precision_is_used_while_it_is_exact(largest, precision):
    counts = np.full((4, 1, 16), largest, dtype=np.uint64)
    assert precision_for(counts, counts.sum(axis=-1)) is precision


def test_an_empty_row_that_fills_later_is_lossless():
    counts = np.zeros((4, 2, 256), dtype=np.uint64)
    counts[2:, 1] = 7
    codec, data = pack(counts)
    assert np.array_equal(unpack(codec, data, counts.shape), counts)


@pytest.mark.parametrize("empty", [range(0), range(20), range(20, 40), range(0, 40, 2), range(40)])
def test_whole_blocks_of_empty_rows_are_lossless(empty):
    rng = np.random.default_rng(2)
    counts = rng.poisson(rng.gamma(3, 800, (40, 256)), (60, 40, 256)).astype(np.uint32)
    counts[:, list(empty)] = 0
    codec, data = pack(counts)
    assert codec == RESIDUAL32
    assert np.array_equal(unpack(codec, data, counts.shape), counts)


def test_sums_that_would_overflow_fall_back():
    counts = np.full((60, 1, 4096), 2**31 - 1, dtype=np.uint64)
    assert precision_for(counts, counts.sum(axis=-1)) is None
    codec, data = pack(counts)
    assert codec == OCTAVES
    assert np.array_equal(unpack(codec, data, counts.shape), counts)


def test_stationary_loads_are_within_eight_percent_of_their_entropy():
    rng = np.random.default_rng(0)
    layers, experts, mean, frames = 8, 256, 2541, 60
    shares = rng.gamma(1 / 0.36, size=(layers, experts))
    shares /= shares.sum(axis=1, keepdims=True)
    counts = np.stack(
        [[rng.multinomial(mean * experts, share) for share in shares] for _ in range(frames)]
    ).astype(np.uint64)
    expected = mean * experts * shares
    entropy_bits = 0.5 * np.log2(2 * np.pi * np.e * expected * (1 - shares)).sum() * frames
    codec, data = pack(counts)
    assert codec == RESIDUAL32
    assert len(data) * 8 <= 1.08 * entropy_bits


def test_counts_that_jump_about_are_packed_as_they_are():
    rng = np.random.default_rng(1)
    counts = (rng.random((9, 4, 256)) < 0.02) * rng.integers(1, 60_000, (9, 4, 256))
    codec, data = pack(counts.astype(np.uint64))
    assert codec == OCTAVES
    assert np.array_equal(unpack(codec, data, counts.shape), counts)


def test_more_than_one_block_of_rows_is_lossless(monkeypatch):
    monkeypatch.setattr("controlplane.history.packing._BLOCK_VALUES", 60 * 256 * 3)
    monkeypatch.setattr("controlplane.history.series_packing._GROUP_VALUES", 60 * 100)
    rng = np.random.default_rng(3)
    counts = rng.poisson(rng.gamma(3, 800, (10, 256)), (60, 10, 256)).astype(np.uint16)
    codec, data = pack(counts)
    assert codec == RESIDUAL32
    assert np.array_equal(unpack(codec, data, counts.shape), counts)


@settings(deadline=None)
@given(st.sampled_from([OCTAVES, SERIES, RESIDUAL, RESIDUAL32]), st.binary(max_size=300))
def test_any_bytes_are_counts_of_the_shape_or_a_value_error(codec, data):
    with contextlib.suppress(ValueError):
        assert unpack(codec, data, (3, 2, 16)).shape == (3, 2, 16)


@pytest.mark.parametrize("at", [0, 5, -1])
def test_a_blob_cut_short_is_a_value_error(at):
    counts = np.arange(6 * 300, dtype=np.uint64).reshape(6, 300)
    with pytest.raises(ValueError, match="not readable"):
        unpack(OCTAVES, pack_octaves(counts)[:at], counts.shape)


def test_short_planes_are_a_value_error():
    with pytest.raises(ValueError, match="do not hold"):
        unpack_planes(pack_planes(np.zeros(3, dtype=np.uint64)), (4,))
