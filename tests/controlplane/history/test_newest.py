"""The newest frame and its age, whatever clocks say. On both databases."""

import pytest
from sqlalchemy import update

from controlplane.clock import ManualClock
from controlplane.history.history import History
from controlplane.history.models import LoadRing
from controlplane.policy.facts import is_fresh
from controlplane.settings import HistorySettings
from tests.support.frames import START, make_frame, received

MONTH = 30 * 86_400.0
STALE = 15.0


@pytest.fixture
def clock():
    return ManualClock(START + 1)


@pytest.fixture
def history(database, clock) -> History:
    return History(database, HistorySettings(), clock)


def _send(history, sequence: int, started: float, **more) -> None:
    history.append([received(make_frame(sequence, started=started, **more))])


def _newest(history):
    cold = History(history.database, history.settings, history.clock)
    found, read = history.newest("e0"), cold.newest("e0")
    assert found is not None
    assert read is not None
    assert found.header == read.header
    return found


def test_a_late_frame_is_not_the_newest(history):
    for sequence in (1, 0):
        _send(history, sequence, START + sequence)
    assert _newest(history).header.sequence == 1


def test_the_newest_boot_has_the_newest_frame(history):
    _send(history, 7, START)
    _send(history, 0, START + 1, boot_id="boot-b")
    assert _newest(history).header.boot_id == "boot-b"


def test_a_frame_of_the_future_is_not_the_newest_once_the_clock_is_right_again(history):
    for sequence, started in enumerate((START, START + MONTH, START)):
        _send(history, sequence, started)
    newest = _newest(history)
    assert newest.header.sequence == 2
    assert newest.age(START + 1) == 0


def test_an_engine_whose_clock_is_ahead_is_held_and_grows_old_when_it_is_silent(history):
    _send(history, 0, START + MONTH)
    newest = _newest(history)
    assert newest.is_ahead
    for silent, age in ((0.0, 0.0), (10.0, 10.0), (100.0, 100.0)):
        now = START + 1 + silent
        assert newest.age(now) == age
        assert not is_fresh(newest.signed_age(now, STALE), STALE)
    assert newest.signed_age(START + 1, STALE) == -MONTH
    assert newest.signed_age(START + 101, STALE) == 100


def test_a_clock_that_is_a_minute_ahead_hides_no_silence(history):
    _send(history, 0, START + 60)
    newest = _newest(history)
    assert [
        is_fresh(newest.signed_age(START + 1 + silent, STALE), STALE)
        for silent in range(0, 120, 5)
    ] == [False] * 24  # fmt: skip


def test_a_small_skew_is_believed(history):
    _send(history, 0, START + 3)
    newest = _newest(history)
    assert not newest.is_ahead
    assert newest.age(START + 1) == 0
    assert newest.age(START + 14) == 10


def test_a_damaged_frame_hands_over_to_the_one_before_it(history):
    for sequence in range(3):
        _send(history, sequence, START + sequence)
    with history.database.write() as session:
        session.execute(update(LoadRing).where(LoadRing.sequence == 2).values(payload=b"\0"))
    cold = History(history.database, history.settings, history.clock)
    assert _newest(cold).header.sequence == 1
