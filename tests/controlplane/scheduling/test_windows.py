from dataclasses import replace

import numpy as np
import pytest

from controlplane.clock import ManualClock
from controlplane.detectors.observed import pooled
from controlplane.history.history import History
from controlplane.scheduling.windows import NARROW_FROM, AlignedWindows, narrowed, thinned
from controlplane.settings import HistorySettings
from tests.support.frames import START, make_frame, received


@pytest.fixture
def history(sqlite_database) -> History:
    return History(sqlite_database, HistorySettings(), ManualClock(START))


def store(history, *sequences):
    history.append([received(make_frame(sequence)) for sequence in sequences])


def last(windows, ended, **more):
    return windows.last("e0", ended=START + ended, seconds=10.0, **{"count": 3, "full": 9, **more})


def test_windows_are_aligned_and_only_complete_ones_are_given(history):
    store(history, *range(25))
    found = last(AlignedWindows(history), 25)
    assert [(w.start - START, w.frames) for w in found] == [(0, 10), (10, 10)]


def test_a_late_frame_is_taken_up(history):
    windows = AlignedWindows(history)
    store(history, *range(5), *range(6, 12))
    assert last(windows, 12)[0].frames == 9
    store(history, 5, *range(12, 31))
    assert last(windows, 31)[0].frames == 10


def test_a_whole_window_is_summed_once(history):
    windows = AlignedWindows(history)
    store(history, *range(10))
    first = last(windows, 10)[0]
    assert last(windows, 10)[0] is first


def test_old_windows_are_thin_and_keep_their_sums(history):
    windows = AlignedWindows(history)
    store(history, *range(30))
    full = last(windows, 30)
    thin = last(windows, 30, full=1)
    assert [w.arrays["assignments"].shape[2] for w in thin] == [1, 1, 4]
    assert [w.arrays["assignments"].sum() for w in thin] == [
        w.arrays["assignments"].sum() for w in full
    ]
    assert last(windows, 30)[0].arrays["assignments"].shape[2] == 4


def test_a_thin_window_keeps_latencies_and_overflow(history):
    store(history, *range(10))
    window = history.window("e0", START, START + 10)
    assert window is not None
    slim = thinned(window)
    assert "a2a_layer" not in slim.arrays
    assert np.array_equal(slim.arrays["overflow"], window.arrays["overflow"])
    assert slim.by_generation is window.by_generation


def test_a_kept_window_holds_large_arrays_in_few_bits_and_the_same_counts(history):
    store(history, *range(10))
    window = history.window("e0", START, START + 10)
    assert window is not None
    large = np.arange(NARROW_FROM, dtype=np.uint64).reshape(4, 1, -1)
    wide = replace(window, arrays={**window.arrays, "assignments": large})
    kept = narrowed(wide)
    assert kept.arrays["assignments"].dtype == np.uint16
    assert kept.arrays["overflow"].dtype == np.uint64
    for name, values in wide.arrays.items():
        np.testing.assert_array_equal(kept.arrays[name], values)
    assert kept.arrays["assignments"].sum() == large.sum()


def test_pooling_narrow_windows_does_not_overflow(history):
    store(history, *range(10))
    window = history.window("e0", START, START + 10)
    assert window is not None
    full = np.full((2, 1, NARROW_FROM), 255, dtype=np.uint64)
    kept = narrowed(replace(window, arrays={"whatif_live": full}))
    assert kept.arrays["whatif_live"].dtype == np.uint8
    together = pooled([kept, kept, kept], "whatif_live")
    assert together is not None
    np.testing.assert_array_equal(together, full * 3)
