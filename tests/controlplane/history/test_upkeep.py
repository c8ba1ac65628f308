"""Sealing, hourly sums and retention. On both databases."""

import numpy as np
import pytest
from sqlalchemy import func, select, update

from contract.frame_codec import encode, payload_bytes
from controlplane.clock import ManualClock
from controlplane.errors import StorageError
from controlplane.history import retention
from controlplane.history.history import History
from controlplane.history.models import (
    IncidentPin,
    LayerSummary,
    LoadChunk,
    LoadRing,
    LoadRollup,
)
from controlplane.history.ring import Outcome
from controlplane.history.summing import sum_frames
from controlplane.history.upkeep import Upkeep, jobs
from controlplane.history.window_codec import decode_window
from controlplane.settings import HistorySettings
from tests.support.frames import START, make_frame, received

HOUR_START = START - START % 3600


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture
def history(database, clock) -> History:
    settings = HistorySettings(ring_frames=120, chunk_hours=1, rollup_10s_hours=2, rollup_1m_days=1)
    return History(database, settings, clock)


@pytest.fixture
def upkeep(history) -> Upkeep:
    return Upkeep(history)


def _send(history: History, *sequences: int, base: float = START, **frame) -> list[Outcome]:
    rng = np.random.default_rng(1)
    batch = [
        received(make_frame(s, started=base + s, fill=4, rng=rng, experts=8, **frame))
        for s in sequences
    ]
    return history.append(batch).outcomes


def _count(history: History, table) -> int:
    with history.database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def _rollup(history: History, tier: int, t0: float):
    with history.database.read() as session:
        payload = session.scalar(
            select(LoadRollup.payload).where(LoadRollup.tier == tier, LoadRollup.t0 == int(t0))
        )
    return None if payload is None else decode_window(payload)


def test_a_minute_is_sealed_after_its_grace_and_only_once(history, upkeep, clock):
    _send(history, *range(70))
    clock.advance(64)
    assert upkeep.seal().frames == 0
    clock.advance(2)
    assert upkeep.seal().frames == 60
    assert upkeep.seal().frames == 0
    assert _count(history, LoadChunk) == 1
    assert _count(history, LoadRollup) == 7
    assert _count(history, LayerSummary) == 2


def test_sealed_frames_are_the_sent_frames_after_their_slots_are_gone(history, upkeep, clock):
    _send(history, *range(60))
    before = history.window("e0", START, START + 60)
    clock.advance(70)
    upkeep.seal()
    for first in (60, 120):
        _send(history, *range(first, first + 60))
        clock.advance(60)
        upkeep.seal()
    with history.database.read() as session:
        assert session.scalar(select(func.min(LoadRing.sequence))) == 60
    after = history.window("e0", START, START + 60)
    assert before is not None
    assert after is not None
    assert after.frames == 60
    assert np.array_equal(after.arrays["assignments"], before.arrays["assignments"])
    assert len(history.frames("e0", START, START + 180)) == 180


def test_rollups_are_the_sums_of_their_frames(history, upkeep, clock):
    _send(history, *range(60))
    clock.advance(70)
    upkeep.seal()
    for tier, start in ((10, START + 20), (60, START)):
        expected = history.window("e0", start, start + tier)
        found = _rollup(history, tier, start)
        assert found is not None
        assert expected is not None
        assert (found.frames, found.tokens) == (expected.frames, expected.tokens)
        for name, values in expected.arrays.items():
            assert np.array_equal(found.arrays[name], values)


def test_a_late_frame_joins_its_minute(history, upkeep, clock):
    _send(history, *range(5), *range(6, 60))
    clock.advance(70)
    assert upkeep.seal().frames == 59
    _send(history, 5)
    assert upkeep.seal().frames == 1
    assert _count(history, LoadChunk) == 2
    whole = _rollup(history, 60, START)
    assert whole is not None
    assert whole.frames == 60
    assert len(history.frames("e0", START, START + 60)) == 60


def test_a_minute_that_is_too_large_to_be_unpacked_at_once_is_sealed_in_parts(
    history, upkeep, clock, monkeypatch
):
    order = [*range(30, 60), *range(30)]
    _send(history, *order[:40])
    _send(history, *order[40:])
    clock.advance(70)
    sent = history.frames("e0", START, START + 60)
    one = payload_bytes(encode(sent[0]))
    monkeypatch.setattr("controlplane.history.sealing.PART_BYTES", 25 * one)
    assert [upkeep.seal().frames for _ in range(4)] == [25, 25, 10, 0]
    assert _count(history, LoadChunk) == 3
    expected = sum_frames("e0", START, START + 60, sent)
    found = _rollup(history, 60, START)
    assert found is not None
    assert expected is not None
    assert found.frames == 60
    for name, values in expected.arrays.items():
        assert np.array_equal(found.arrays[name], values)


def test_a_frame_larger_than_a_part_is_a_part(history, upkeep, clock, monkeypatch):
    _send(history, *range(3))
    clock.advance(70)
    monkeypatch.setattr("controlplane.history.sealing.PART_BYTES", 1)
    assert [upkeep.seal().frames for _ in range(4)] == [1, 1, 1, 0]


def test_a_clock_that_runs_ahead_does_not_stop_the_ring(history, upkeep):
    future = START + 10 * 86400
    for first in range(0, 600, 60):
        assert set(_send(history, *range(first, first + 60), base=future)) == {Outcome.STORED}
        upkeep.seal()
    assert _count(history, LoadRing) == 120


def test_a_failure_while_storing_leaves_the_minute_unsealed(history, upkeep, clock, monkeypatch):
    _send(history, *range(60))
    clock.advance(70)

    def fails(*_args):
        raise StorageError("disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("controlplane.history.sealing.store_rollups", fails)
        with pytest.raises(StorageError):
            upkeep.seal()
    assert _count(history, LoadChunk) == 0
    with history.database.read() as session:
        sealed = select(func.count()).select_from(LoadRing).where(LoadRing.sealed.is_(True))
        assert session.scalar(sealed) == 0
    assert upkeep.seal().frames == 60


def test_a_damaged_chunk_is_left_out_and_the_rest_is_readable(history, upkeep, clock):
    for first in (0, 60, 120, 180):
        _send(history, *range(first, first + 60))
        clock.advance(66)
        upkeep.seal()
    with history.database.write() as session:
        session.execute(update(LoadChunk).where(LoadChunk.t0 == int(START)).values(payload=b"x"))
    assert len(history.frames("e0", START, START + 240)) == 180


def test_a_damaged_ring_frame_does_not_stop_sealing(history, upkeep, clock):
    _send(history, *range(60))
    with history.database.write() as session:
        session.execute(update(LoadRing).where(LoadRing.sequence == 7).values(payload=b"x"))
    clock.advance(70)
    cold = Upkeep(History(history.database, history.settings, clock))
    assert cold.seal().frames == 59
    assert upkeep.seal().frames == 0


def test_hours_are_sums_of_minutes_and_grow_with_late_ones(history, upkeep, clock):
    base = HOUR_START
    for minute in (0, 1):
        _send(history, *range(minute * 60, minute * 60 + 60), base=base)
    upkeep.seal()
    clock.advance(7200)
    upkeep.seal()
    assert upkeep.roll_hours() == 1
    assert upkeep.roll_hours() == 0
    hour = _rollup(history, 3600, base)
    assert hour is not None
    assert hour.frames == 120
    _send(history, *range(120, 130), base=base)
    upkeep.seal()
    assert upkeep.roll_hours() == 1
    grown = _rollup(history, 3600, base)
    assert grown is not None
    assert grown.frames == 130


def test_retention_deletes_what_is_over_and_skips_pins(history, upkeep, clock):
    for minute in (0, 1, 2):
        _send(history, *range(minute * 60, minute * 60 + 60))
        clock.advance(66)
        upkeep.seal()
    pin = history.pin("e0", START + 60, START + 119, reason="incident 7", actor="anna")
    clock.advance(3600 * 1.5)
    upkeep.retain()
    with history.database.read() as session:
        assert session.scalars(select(LoadChunk.t0)).all() == [int(START) + 60]
    clock.advance(86400 * 2)
    upkeep.retain()
    with history.database.read() as session:
        assert set(session.scalars(select(LoadRollup.t0).where(LoadRollup.tier == 10))) == set(
            range(int(START) + 60, int(START) + 120, 10)
        )
        assert set(session.scalars(select(LayerSummary.t0))) == {int(START) + 60}
    history.unpin(pin)
    upkeep.retain()
    assert _count(history, LoadChunk) == 0
    assert _count(history, IncidentPin) == 0


def test_retention_keeps_what_the_settings_say(history):
    limit = retention.limits(history.settings, 10_000_000.0)
    assert limit.by_tier[0] == 10_000_000 - 3600
    assert limit.by_tier[3600] == limit.events == 10_000_000 - 366 * 86400


def test_every_job_runs_and_runs_again(history, upkeep, clock):
    _send(history, *range(60))
    clock.advance(100)
    for _ in range(2):
        for job in jobs(upkeep):
            job.run()
    assert _count(history, LoadChunk) == 1


def test_sealing_waits_while_the_writer_catches_up_but_not_when_the_ring_fills(history, clock):
    busy = True
    upkeep = Upkeep(history, lambda: busy)
    _send(history, *range(10))
    clock.advance(120)
    assert upkeep.seal().minutes == 0
    _send(history, *range(10, 35))  # a quarter of the ring's 120
    assert upkeep.seal().frames == 35
    _send(history, *range(60, 70))
    clock.advance(120)
    assert upkeep.seal().frames == 0
    busy = False
    assert upkeep.seal().frames == 10
