"""The ring: idempotent, gaps as gaps, and never over an unsealed slot. On both databases."""

import pytest
from sqlalchemy import event, func, select, update

from controlplane.clock import ManualClock
from controlplane.history.frames import oldest_ordinal
from controlplane.history.history import History
from controlplane.history.models import ConfigChange, EngineBoot, LoadRing
from controlplane.history.ring import Outcome
from controlplane.history.upkeep import Upkeep
from controlplane.settings import HistorySettings
from tests.support.frames import START, make_frame, received


@pytest.fixture
def history(database) -> History:
    return History(database, HistorySettings(ring_frames=60), ManualClock(START))


def _append(history: History, *sequences: int, **frame) -> list[Outcome]:
    batch = [received(make_frame(sequence, **frame)) for sequence in sequences]
    return history.append(batch).outcomes


def _stored(history: History) -> list[int]:
    with history.database.read() as session:
        return list(session.scalars(select(LoadRing.sequence).order_by(LoadRing.ordinal)))


def test_a_frame_is_stored_once_however_often_it_comes(history):
    assert _append(history, 0, 1, 1) == [Outcome.STORED, Outcome.STORED, Outcome.DUPLICATE]
    assert _append(history, 1, 2) == [Outcome.DUPLICATE, Outcome.STORED]
    assert _stored(history) == [0, 1, 2]


def test_another_process_knows_what_was_stored(history):
    _append(history, 0, 2)
    restarted = History(history.database, history.settings, history.clock)
    assert _append(restarted, 2, 1, 3) == [Outcome.DUPLICATE, Outcome.STORED, Outcome.STORED]
    assert restarted.gaps("e0", START, START + 10) == []


def test_holes_are_gaps_until_they_are_filled(history):
    _append(history, 0, 4)
    (gap,) = history.gaps("e0", START, START + 10)
    assert (gap.first_sequence, gap.last_sequence, gap.frames) == (1, 3, 3)
    _append(history, 2)
    assert [g.frames for g in history.gaps("e0", START, START + 10)] == [1, 1]
    window = history.window("e0", START, START + 10)
    assert window is not None
    assert (window.frames, window.missing) == (3, 2)


def test_newly_missing_frames_are_counted_once(history):
    first = history.append([received(make_frame(0)), received(make_frame(4))])
    again = history.append([received(make_frame(5))])
    assert first.newly_missing == {"e0": 3}
    assert again.newly_missing == {"e0": 0}


def test_an_engine_that_ran_before_has_no_gap(history):
    # A fresh control plane, beside engines that are a quarter of an hour old.
    appended = history.append([received(make_frame(i)) for i in (884, 885)])
    assert appended.newly_missing == {"e0": 0}
    assert history.gaps("e0", 0.0, START + 2000) == []
    window = history.window("e0", START + 880, START + 890)
    assert window is not None
    assert window.missing == 0


def test_what_an_engine_dropped_before_its_first_frame_is_a_gap_of_that_time(history):
    history.append([received(make_frame(884))])
    appended = history.append([received(make_frame(885, dropped_before=20))])
    assert appended.newly_missing == {"e0": 20}
    (gap,) = history.gaps("e0", 0.0, START + 2000)
    assert (gap.first_sequence, gap.last_sequence) == (864, 883)
    assert (gap.started, gap.ended) == (START + 864, START + 884)
    again = history.append([received(make_frame(i, dropped_before=20)) for i in (885, 886)])
    assert again.outcomes == [Outcome.DUPLICATE, Outcome.STORED]
    assert again.newly_missing == {"e0": 0}


def test_frames_from_before_the_first_are_stored_once(history):
    assert _append(history, 884, 885) == [Outcome.STORED] * 2
    restarted = History(history.database, history.settings, history.clock)
    assert _append(restarted, 882) == [Outcome.STORED]
    assert _append(history, 882, 884, 883) == [
        Outcome.DUPLICATE, Outcome.DUPLICATE, Outcome.STORED,
    ]  # fmt: skip
    assert history.gaps("e0", 0.0, START + 2000) == []


def test_a_sequence_that_begins_anew_below_the_first_is_refused(history):
    _append(history, 884, 885)
    assert _append(history, 0, started=START + 886) == [Outcome.RESET]


def test_a_new_boot_starts_its_own_sequence(history):
    _append(history, 0, 1)
    assert _append(history, 0, boot_id="boot-b", started=START + 2) == [Outcome.STORED]
    with history.database.read() as session:
        assert session.scalar(select(func.count()).select_from(EngineBoot)) == 2
    assert history.gaps("e0", START, START + 10) == []


def test_engines_do_not_share_slots(history):
    _append(history, 0, engine_id="e0")
    _append(history, 0, engine_id="e1")
    assert history.engine_ids() == ["e0", "e1"]
    assert len(_stored(history)) == 2


def test_an_unsealed_slot_is_never_overwritten(history):
    assert _append(history, *range(60)) == [Outcome.STORED] * 60
    assert _append(history, 60) == [Outcome.RING_FULL]
    assert history.gaps("e0", START, START + 100) == []
    with history.database.write() as session:
        session.execute(update(LoadRing).where(LoadRing.ordinal < 1).values(sealed=True))
    assert _append(history, 60, 61) == [Outcome.STORED, Outcome.RING_FULL]
    assert _stored(history) == list(range(1, 61))


def test_the_ring_keeps_its_size(history):
    for first in range(0, 300, 50):
        _append(history, *range(first, first + 50))
        with history.database.write() as session:
            session.execute(update(LoadRing).values(sealed=True))
    assert len(_stored(history)) == 60
    assert _append(history, 3) == [Outcome.DUPLICATE]


def test_a_change_of_config_is_kept_with_its_time(history):
    _append(history, 0, 1)
    _append(history, 2, config_generation=2, live_bias="a" * 64)
    with history.database.read() as session:
        rows = session.execute(select(ConfigChange.generation, ConfigChange.at)).all()
    assert [(row.generation, row.at) for row in rows] == [(1, START), (2, START + 2)]


def test_frames_come_back_as_they_were_sent(history):
    history.append([received(make_frame(i, fill=i + 1)) for i in range(3)])
    cold = History(history.database, history.settings, history.clock)
    for source in (history, cold):
        frames = source.frames("e0", START + 1, START + 3)
        assert [frame.header.sequence for frame in frames] == [1, 2]
        assert frames[1].arrays["assignments"].min() == 3


def test_newest_is_the_latest_start(history):
    assert history.newest("e0") is None
    _append(history, 1, 0)
    newest = history.newest("e0")
    assert newest is not None
    assert newest.header.sequence == 1
    assert newest.ended == START + 2


def test_windows_end_at_the_given_time_and_skip_empty_ones(history):
    _append(history, *range(4), *range(8, 10))
    windows = history.windows("e0", START + 10, 2, 5)
    assert [(w.start - START, w.frames) for w in windows] == [(0, 2), (2, 2), (8, 2)]


SHORT = ("ix_load_ring_unsealed", "ix_load_ring_engine_started (engine_id=? AND started>? AND st")
"""Indexes that lead to what is not sealed, or to the frames of one minute."""


def test_what_is_not_sealed_is_found_by_its_index(sqlite_database):
    # A plan that walks the ring reads a page for every frame of it, ten times a second.
    history = History(sqlite_database, HistorySettings(ring_frames=60), ManualClock(START + 300))
    asked: list[tuple[str, object]] = []

    def note(_connection, _cursor, statement, parameters, _context, many):
        if "load_ring" in statement and "sealed =" in statement.partition("WHERE")[2] and not many:
            asked.append((statement, parameters))

    event.listen(sqlite_database.engine, "before_cursor_execute", note)
    _append(history, *range(70))
    Upkeep(history).seal()
    event.remove(sqlite_database.engine, "before_cursor_execute", note)
    assert len(asked) >= 4
    with sqlite_database.engine.connect() as connection:
        for statement, parameters in asked:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            found = str(plan.all())
            assert any(index in found for index in SHORT), statement


@pytest.mark.parametrize("sizes", [(60, 60), (60, 90), (90, 60)])
def test_the_oldest_frame_is_known_also_when_the_ring_was_resized(history, sizes):
    first, second = sizes
    for size, sequences in ((first, range(100)), (second, range(100, 130))):
        resized = History(history.database, HistorySettings(ring_frames=size), history.clock)
        for start in range(sequences[0], sequences[-1] + 1, 10):
            _append(resized, *range(start, start + 10))
            with history.database.write() as session:
                session.execute(update(LoadRing).values(sealed=True))
    with history.database.read() as session:
        oldest = oldest_ordinal(session, "e0", second)
        held = session.scalar(select(func.min(LoadRing.ordinal)).where(LoadRing.slot < second))
        assert oldest == held
        assert oldest_ordinal(session, "nobody", second) is None
