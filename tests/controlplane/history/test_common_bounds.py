"""Where counts that were read from another engine's buckets are exact."""

import pytest

from contract.frame_codec import Frame
from controlplane.clock import ManualClock
from controlplane.history.common_bounds import CommonBounds
from controlplane.history.history import History
from controlplane.history.observed import exact_bounds
from controlplane.history.summing import WindowSum, sum_frames
from controlplane.history.tiers import Span
from controlplane.history.upkeep import Upkeep
from controlplane.settings import HistorySettings
from tests.support.frames import START, make_frame, received


def said(**exact) -> dict:
    return {"kind": "vllm", "exact_bounds": {name: list(b) for name, b in exact.items()}}


def frame(sequence, **exact):
    return make_frame(sequence, arrays=("ttft",), observed=said(**exact))


def bounds_of(*frames, name="ttft"):
    window = sum_frames("e0", START, START + 60, frames)
    assert window is not None
    return exact_bounds(window.header, name)


def test_of_frames_with_other_buckets_only_the_common_bounds_are_exact():
    assert bounds_of(frame(0, ttft=(0.1, 0.5)), frame(1, ttft=(0.1, 0.2))) == (0.1,)


def test_a_frame_without_the_histogram_takes_no_bound_away():
    assert bounds_of(frame(0, ttft=(0.1, 0.5)), frame(1)) == (0.1, 0.5)


def test_windows_that_are_summed_again_keep_to_it():
    early = sum_frames("e0", START, START + 1, [frame(0, ttft=(0.1, 0.5))])
    late = sum_frames("e0", START + 1, START + 2, [frame(1, ttft=(0.1, 0.2))])
    total = WindowSum()
    for window in (late, early):
        assert window is not None
        total.merge(window)
    merged = total.window("e0", START, START + 2)
    assert merged is not None
    assert exact_bounds(merged.header, "ttft") == (0.1,)


def test_a_sum_of_stored_minutes_keeps_to_it(sqlite_database):
    clock = ManualClock(START)
    history = History(sqlite_database, HistorySettings(), clock)
    for minute, bounds in enumerate([(0.1, 0.5), (0.1, 0.2), (0.1, 0.2)]):
        made = frame(minute, ttft=bounds)
        late = made.header.model_copy(update={"started_unix_seconds": START + 60 * minute})
        history.append([received(Frame(late, made.arrays))])
    clock.advance(300)
    Upkeep(history).seal()
    (covered,) = history.sums(["e0"], Span(START, START + 3600))
    assert covered.window is not None
    assert exact_bounds(covered.window.header, "ttft") == (0.1,)


def test_an_engine_that_sends_its_own_frames_is_exact_everywhere():
    assert bounds_of(make_frame(0), make_frame(1)) is None


@pytest.mark.parametrize("junk", [3, "x", {"kind": 5}, {"exact_bounds": []}])
def test_what_is_no_such_word_is_not_heeded(junk):
    common = CommonBounds()
    common.see(junk)
    header = make_frame(0).header
    assert common.told_by(header) is header
