"""The ring when clocks are set, or a boot begins to count anew. On both databases."""

import pytest
from sqlalchemy import func, select

from controlplane.clock import ManualClock
from controlplane.history.history import History
from controlplane.history.models import FrameGap
from controlplane.history.ring import Outcome
from controlplane.history.upkeep import Upkeep
from controlplane.settings import HistorySettings
from tests.support.frames import START, make_frame, received

DAY = 86_400


@pytest.fixture
def clock():
    return ManualClock(START + 60)


@pytest.fixture
def history(database, clock) -> History:
    settings = HistorySettings(ring_frames=60, chunk_hours=1, rollup_10s_hours=1, rollup_1h_days=1)
    return History(database, settings, clock)


def _append(history: History, *sequences: int, **frame) -> list[Outcome]:
    return history.append([received(make_frame(s, **frame)) for s in sequences]).outcomes


def _gaps(history: History) -> int:
    with history.database.read() as session:
        return session.scalar(select(func.count()).select_from(FrameGap)) or 0


def test_late_frames_fill_a_hole_that_lies_before_a_clock_set_back(history):
    _append(history, *range(10))
    _append(history, 20, started=100.0)
    Upkeep(history).retain()
    assert _append(history, *range(10, 20)) == [Outcome.STORED] * 10
    assert _gaps(history) == 0


def test_a_clock_that_was_wrong_once_does_not_misplace_later_holes(history):
    _append(history, 0, started=4e9)
    _append(history, 1)
    _append(history, 5)
    (gap,) = history.gaps("e0", START, START + 60)
    assert (gap.started, gap.ended) == (START + 2, START + 5)


def test_a_gap_is_kept_while_its_boot_is_heard_and_goes_with_it(history, clock):
    _append(history, 0, 2)
    clock.advance(500 * DAY)
    _append(history, 3)
    Upkeep(history).retain()
    assert _gaps(history) == 1
    assert _append(history, 1) == [Outcome.STORED]
    _append(history, 5)
    clock.advance(500 * DAY)
    Upkeep(history).retain()
    assert _gaps(history) == 0


def test_a_count_that_begins_anew_is_refused_into_a_hole_and_over_held_frames(history):
    _append(history, 0, 1, 2, *range(10, 20))
    assert _append(history, 5, started=START + 600) == [Outcome.RESET]
    assert _append(history, 0, started=START - 5000) == [Outcome.RESET]
    assert _append(history, 19, started=START + 18.5) == [Outcome.RESET]
    assert _append(history, 0, 5, 5, 19) == [
        Outcome.DUPLICATE, Outcome.STORED, Outcome.DUPLICATE, Outcome.DUPLICATE,
    ]  # fmt: skip
    assert history.gaps("e0", START, START + 600)[0].ended == START + 5


def test_a_batch_that_counts_anew_within_itself_is_told_apart(history):
    batch = [received(make_frame(s, started=START + s)) for s in range(3)]
    batch += [received(make_frame(s, started=START + 3 + s)) for s in range(3)]
    assert history.append(batch).outcomes == [Outcome.STORED] * 3 + [Outcome.RESET] * 3


def test_a_frame_that_the_ring_no_longer_holds_is_judged_by_the_newest(history):
    for first in range(0, 120, 30):
        _append(history, *range(first, first + 30))
        Upkeep(history).seal()
        history.clock.advance(100)
    assert _append(history, 3) == [Outcome.DUPLICATE]
    assert _append(history, 3, started=START + 300) == [Outcome.RESET]


def test_a_jump_that_no_engine_can_make_is_refused_and_lacks_nothing(history, clock):
    _append(history, 0)
    far = history.append([received(make_frame(2**32 - 1))])
    assert (far.outcomes, far.newly_missing) == ([Outcome.JUMP], {"e0": 0})
    assert _append(history, 1, 50) == [Outcome.STORED, Outcome.STORED]
    clock.advance(400 * DAY)
    assert _append(history, 400 * DAY) == [Outcome.STORED]


def test_the_first_frame_of_a_boot_may_have_any_number(history):
    assert _append(history, 2**32 - 1) == [Outcome.STORED]
