"""Counts of the sealed past: minutes, and hours before, each interval once."""

import numpy as np
import pytest

from controlplane.clock import ManualClock
from controlplane.history.history import History
from controlplane.history.tiers import Span
from controlplane.history.upkeep import Upkeep
from controlplane.scheduling.stored_counts import StoredCounts
from controlplane.settings import HistorySettings
from tests.support.frames import START, make_frame, received

DAYS = 3 * 86_400.0
FIRST = START // 3600 * 3600
"""A full hour."""
MINUTES = 200


@pytest.fixture
def history(sqlite_database) -> History:
    """A frame a minute; hours are summed by a pass of upkeep at the end."""
    clock = ManualClock(FIRST)
    history = History(sqlite_database, HistorySettings(), clock)
    frames = [
        received(make_frame(n, started=FIRST + 60 * n, interval_seconds=60)) for n in range(MINUTES)
    ]
    for first in range(0, MINUTES, 50):
        history.append(frames[first : first + 50])
        clock.advance(50 * 60)
        Upkeep(history).seal()
    return history


def intervals(counts) -> list[tuple[float, float]]:
    return [
        (start - FIRST, end - start) for start, end in zip(counts.starts, counts.ends, strict=True)
    ]


def test_hours_without_a_sum_are_counted_by_their_minutes(history):
    counts = StoredCounts(history).before("e0", FIRST + 190 * 60, DAYS)
    assert intervals(counts) == [(60 * n, 60) for n in range(190)]


def test_hours_are_counted_whole_once_they_are_summed(history):
    Upkeep(history).roll_hours()
    counts = StoredCounts(history).before("e0", FIRST + 190 * 60, DAYS)
    assert intervals(counts)[:2] == [(0, 3600), (3600, 3600)]
    assert intervals(counts)[2:] == [(60 * n, 60) for n in range(120, 190)]
    stored = history.sums(["e0"], Span(FIRST, FIRST + 190 * 60))[0].window
    assert stored is not None
    assert counts.assignments.sum() == stored.assigned.sum()
    assert counts.overflow.sum() == stored.arrays["overflow"].sum()


def test_read_minute_by_minute_or_at_once_the_counts_are_the_same(history):
    Upkeep(history).roll_hours()
    kept = StoredCounts(history)
    found = [kept.before("e0", FIRST + minute * 60 + 7, DAYS) for minute in range(20, 191)][-1]
    at_once = StoredCounts(history).before("e0", FIRST + 190 * 60 + 7, DAYS)
    assert intervals(found) == intervals(at_once)
    np.testing.assert_array_equal(found.assignments, at_once.assignments)


def test_a_clock_that_goes_back_counts_nothing_twice(history):
    Upkeep(history).roll_hours()
    kept = StoredCounts(history)
    kept.before("e0", FIRST + 190 * 60, DAYS)
    back = kept.before("e0", FIRST + 100 * 60, DAYS)
    assert intervals(back) == [(60 * n, 60) for n in range(100)]


def test_what_is_older_than_asked_for_is_dropped(history):
    Upkeep(history).roll_hours()
    kept = StoredCounts(history)
    kept.before("e0", FIRST + 130 * 60, 3600.0)
    counts = kept.before("e0", FIRST + 190 * 60, 3600.0)
    assert intervals(counts)[0] == (7200, 60)


def test_an_engine_that_never_sent_has_no_past(history):
    assert intervals(StoredCounts(history).before("nobody", FIRST + 190 * 60, DAYS)) == []
