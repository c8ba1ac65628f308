"""One minute or hour that fails stops no other. On both databases."""

import logging

import pytest
from sqlalchemy import select

from controlplane.clock import ManualClock
from controlplane.history import hours, inspection, sealing
from controlplane.history.chunk_codec import encode_chunk
from controlplane.history.history import History
from controlplane.history.models import LoadRollup
from controlplane.history.upkeep import ROLL_HOURS, SEAL, Upkeep
from controlplane.settings import HistorySettings
from tests.support.frames import START, make_frame, received

ENGINES = ("e0", "e1", "e2")


@pytest.fixture
def clock():
    return ManualClock(START + 2 * 3600)


@pytest.fixture
def history(database, clock) -> History:
    history = History(database, HistorySettings(), clock)
    for engine in ENGINES:
        history.append(
            [
                received(make_frame(i, engine_id=engine, started=START + i * 60))
                for i in range(2)
            ]
        )  # fmt: skip
    return history


def _stored(history: History, tier: int) -> list[tuple[str, int]]:
    with history.database.read() as session:
        rows = session.execute(
            select(LoadRollup.engine_id, LoadRollup.t0)
            .where(LoadRollup.tier == tier)
            .order_by(LoadRollup.engine_id, LoadRollup.t0)
        )
        return [(engine, t0 - int(START)) for engine, t0 in rows]


@pytest.fixture
def fails(monkeypatch):
    """Packing a minute, and summing an hour, of e1."""
    encode, total = encode_chunk, hours.sum_hour

    def no_chunk(stack):
        if stack.headers[0].engine_id == "e1" and stack.headers[0].sequence == 0:
            raise ZeroDivisionError("an array without cells")
        return encode(stack)

    def no_hour(session, engine_id, t0):
        if engine_id == "e1":
            raise ZeroDivisionError("an hour without cells")
        return total(session, engine_id, t0)

    monkeypatch.setattr(sealing, "encode_chunk", no_chunk)
    monkeypatch.setattr(hours, "sum_hour", no_hour)


def test_others_are_sealed_and_summed_and_the_failure_is_counted_and_told_once(
    history, fails, caplog
):
    counted: list[str] = []
    upkeep = Upkeep(history, count_failure=counted.append)
    with caplog.at_level(logging.ERROR):
        assert upkeep.seal().minutes == 5
        assert upkeep.seal().minutes == 0
        assert upkeep.roll_hours() == 2
    assert [key for key in _stored(history, 60) if key[0] == "e1"] == [("e1", 60)]
    assert {engine for engine, _ in _stored(history, 3600)} == {"e0", "e2"}
    assert counted == [SEAL, SEAL, ROLL_HOURS]
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(";")[0] for text in told] == [
        f"{SEAL} fails for e1/{int(START)}",
        f"{ROLL_HOURS} fails for e1/{int(START - START % 3600)}",
    ]


def test_the_minute_is_named_by_an_inspection(history, fails):
    Upkeep(history).seal()
    with history.database.read() as session:
        (found,) = inspection.unsealable(session)
    assert (found.table, found.key) == ("load_ring", f"e1/{int(START)}")
    assert "an array without cells" in found.reason


def test_what_failed_is_done_once_it_can_be(history, fails, monkeypatch):
    upkeep = Upkeep(history)
    upkeep.seal()
    upkeep.roll_hours()
    monkeypatch.undo()
    assert upkeep.seal().minutes == 1
    assert upkeep.roll_hours() == 1
    assert len(_stored(history, 60)) == 6
    assert len(_stored(history, 3600)) == 3
