"""The registry of engines, as one process of several sees it."""

import pytest

from controlplane.audit import access_changes
from controlplane.auth.engines import EngineRegistry, RegisteredEngine
from controlplane.clock import ManualClock
from controlplane.db.database import Database
from controlplane.errors import NotFoundError


def registry(database: Database, clock: ManualClock) -> EngineRegistry:
    return EngineRegistry(database, clock, (), access_changes.record)


def engine(name: str) -> RegisteredEngine:
    return RegisteredEngine(name, "http://127.0.0.1:1", "group-0", "a-token")


def test_its_own_changes_are_seen_at_once(sqlite_database):
    mine = registry(sqlite_database, ManualClock())
    assert mine.all() == []
    mine.add(engine("e1"), by="anna")
    assert mine.get("e1").engine_id == "e1"
    mine.remove("e1", by="anna")
    with pytest.raises(NotFoundError):
        mine.get("e1")


def test_those_of_another_process_within_a_second(sqlite_database):
    clock = ManualClock()
    mine, other = registry(sqlite_database, clock), registry(sqlite_database, clock)
    assert mine.all() == []
    other.add(engine("e1"), by="anna")
    clock.advance(1.0)
    assert [e.engine_id for e in mine.all()] == ["e1"]
