"""Hourly sums hold every frame of their hour, whenever it came. On both databases."""

import numpy as np
import pytest
from sqlalchemy import delete, func, select, update

from controlplane.clock import ManualClock
from controlplane.history import hours
from controlplane.history.history import History
from controlplane.history.models import HourDue, LoadChunk, LoadRollup
from controlplane.history.partitions import Partitions
from controlplane.history.tiers import Span
from controlplane.history.upkeep import Upkeep
from controlplane.history.window_codec import decode_window
from controlplane.settings import HistorySettings
from tests.support.frames import START, make_frame, received

HOUR = START - START % 3600
DAY = 86_400


@pytest.fixture
def clock():
    return ManualClock(HOUR + 2 * 3600)


@pytest.fixture
def history(database, clock) -> History:
    settings = HistorySettings(ring_frames=120, chunk_hours=1, rollup_10s_hours=2, rollup_1m_days=1)
    return History(database, settings, clock)


@pytest.fixture
def upkeep(history) -> Upkeep:
    return Upkeep(history)


def _send(history: History, *sequences: int, every: int = 60) -> None:
    """Frames of the hour, the n-th `every` seconds after the one before."""
    history.append(
        [received(make_frame(s, started=HOUR + s * every, fill=1)) for s in sequences]
    )  # fmt: skip


def _hour(history: History):
    """What is stored of the hour, whatever else is."""
    with history.database.read() as session:
        payload = session.scalar(select(LoadRollup.payload).where(LoadRollup.tier == 3600))
    return None if payload is None else decode_window(payload)


def _answered(history: History, *, over: int = 7) -> int:
    """Frames in the answer over some hours, this one the last."""
    span = Span(HOUR - (over - 1) * 3600, HOUR + 3600)
    (covered,) = history.sums(["e0"], span, only=("assignments",))
    assert covered.window is not None
    assert covered.window.arrays["assignments"].sum() == covered.window.frames * 16
    return covered.window.frames


def _minutes(history: History) -> int:
    with history.database.read() as session:
        query = select(func.count()).select_from(LoadRollup).where(LoadRollup.tier == 60)
        return session.scalar(query) or 0


@pytest.mark.parametrize("late", [0, 7 * 3600, 13 * DAY])
def test_frames_join_their_hour_however_late_they_are(history, upkeep, clock, late):
    _send(history, *range(30))
    upkeep.seal()
    assert upkeep.roll_hours() == 1
    clock.advance(late)
    _send(history, *range(30, 60))
    upkeep.seal()
    assert _answered(history) == 60  # at once: of minutes until the hour is made anew
    assert upkeep.roll_hours() == 1
    assert _hour(history).frames == 60
    assert _answered(history) == 60
    assert upkeep.roll_hours() == 0


def test_an_hour_is_never_made_smaller_by_what_retention_took(history, upkeep, clock):
    _send(history, *range(60))
    upkeep.seal()
    upkeep.roll_hours()
    clock.advance(DAY - 3600 - 30 * 60)
    upkeep.retain()
    assert 0 < _minutes(history) < 60
    again = Upkeep(history)
    again.roll_hours()
    assert _hour(history).frames == 60
    with history.database.write() as session:
        session.add(HourDue(engine_id="e0", t0=int(HOUR), marks=1))
    again.roll_hours()
    assert _hour(history).frames == 60


def test_frames_after_the_minutes_are_gone_are_added_to_the_hour(history, upkeep, clock):
    _send(history, *range(50))
    upkeep.seal()
    upkeep.roll_hours()
    clock.advance(DAY - 3600 - 30 * 60)
    upkeep.retain()
    _send(history, 3, 55)  # 3 came before: a duplicate
    _send(history, *range(50, 55), *range(56, 60))
    upkeep.seal()
    upkeep.roll_hours()
    assert _hour(history).frames == 60
    assert np.all(_hour(history).arrays["assignments"] == 60)


def test_minutes_stay_until_their_hour_is_made(history, upkeep, clock):
    _send(history, *range(60))
    upkeep.seal()
    clock.advance(10 * DAY)  # nothing summed hours all the while
    upkeep.retain()
    assert _minutes(history) == 60
    assert upkeep.roll_hours() == 1
    upkeep.retain()
    assert _minutes(history) == 0
    assert _hour(history).frames == 60


def test_a_minute_keeps_what_was_summed_of_chunks_that_are_gone(history, upkeep, clock):
    _send(history, *range(50), every=1)
    upkeep.seal()
    clock.advance(3 * 3600)
    upkeep.retain()
    with history.database.read() as session:
        assert session.scalar(select(func.count()).select_from(LoadChunk)) == 0
    _send(history, *range(50, 60), every=1)
    upkeep.seal()
    with history.database.read() as session:
        frames = session.scalar(select(LoadRollup.frames).where(LoadRollup.tier == 60))
        slices = select(func.sum(LoadRollup.frames)).where(LoadRollup.tier == 10)
        assert frames == 60
        assert session.scalar(slices) == 10  # the others are over


def test_a_damaged_minute_takes_nothing_from_its_hour(history, upkeep):
    _send(history, *range(60))
    upkeep.seal()
    upkeep.roll_hours()
    with history.database.write() as session:
        minute = (LoadRollup.tier == 60) & (LoadRollup.t0 == int(HOUR) + 60)
        session.execute(update(LoadRollup).where(minute).values(payload=b"x"))
    _send(history, 60, every=59)  # into the last minute
    upkeep.seal()
    upkeep.roll_hours()
    assert _hour(history).frames == 60
    assert upkeep.roll_hours() == 0


def test_an_hour_without_minutes_is_not_due_for_ever(history, upkeep):
    _send(history, *range(60))
    upkeep.seal()
    with history.database.write() as session:
        session.execute(delete(LoadRollup))
    upkeep.roll_hours()
    assert upkeep.roll_hours() == 0


def test_a_minute_sealed_while_its_hour_is_summed_leaves_it_due(history, upkeep, clock):
    _send(history, *range(30))
    upkeep.seal()
    with history.database.read() as session:
        (due,) = hours.due_hours(session, now=clock.now())
        summed = hours.sum_hour(session, "e0", due.t0)
    _send(history, *range(30, 60))
    upkeep.seal()
    Partitions(history.database).ensure(hours.tables_of(due.t0))
    with history.database.write() as session:
        hours.settle(session, due, summed)
    assert _answered(history) == 60
    assert upkeep.roll_hours() == 1
    assert _hour(history).frames == 60


def test_a_long_span_takes_minutes_where_the_hour_is_not_made(history, upkeep, clock):
    _send(history, *range(30))
    upkeep.seal()
    upkeep.roll_hours()
    assert _answered(history, over=20 * 24) == 30
    _send(history, *range(30, 60))
    upkeep.seal()
    assert _answered(history, over=20 * 24) == 60
