"""Damaged values in the database: what they held is missing, the rest is answered."""

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from controlplane.app import create_app
from controlplane.clock import ManualClock
from controlplane.db.database import open_database
from controlplane.history import inspection
from controlplane.settings import load_settings
from tests.support.frames import START, make_frame, received

ADMIN = "tt_admin-secret-16"


@pytest.fixture
def damaged(sqlite_url):
    """Run a statement on a database with frames of two engines, then ask a new process."""
    settings = load_settings(database_url=sqlite_url, auth={"admin_token": ADMIN})
    app = create_app(settings, clock=ManualClock(START))
    with TestClient(app):
        for engine in ("e0", "e1"):
            frames = [make_frame(i, engine_id=engine) for i in range(3)]
            app.state.history.append([received(frame) for frame in frames])
    clients: list[TestClient] = []

    def damaged(statement: str) -> TestClient:
        database = open_database(sqlite_url)
        with database.write() as session:
            session.execute(text(statement))
        database.close()
        again = create_app(settings, clock=ManualClock(START + 3))
        client = TestClient(again, headers={"Authorization": f"Bearer {ADMIN}"})
        clients.append(client.__enter__())
        return client

    yield damaged
    for client in clients:
        client.__exit__(None, None, None)


def test_an_engine_stays_when_its_newest_frame_is_damaged(damaged):
    client = damaged("UPDATE load_ring SET payload = x'00' WHERE engine_id = 'e0' AND sequence = 2")
    first, second = client.get("/api/v1/engines").json()
    assert (first["engine_id"], first["newest_ended"]) == ("e0", START + 2)
    assert (second["engine_id"], second["newest_ended"]) == ("e1", START + 3)


@pytest.mark.parametrize("value", ["{bad", "", "[1]"])
def test_a_boot_whose_header_is_damaged_spoils_no_answer(damaged, value):
    client = damaged(f"UPDATE engine_boot SET header = '{value}' WHERE engine_id = 'e0'")
    (boot,) = client.get("/api/v1/engines/e0/boots").json()
    assert (boot["header"], boot["frames"]) == ({}, 3)
    span = {"group": "g0", "start": START, "end": START + 3}
    client.app.state.plane.clock.advance(120)
    client.app.state.plane.upkeep.seal()
    answer = client.get("/api/v1/load", params=span).json()
    assert answer["engines"] == ["e0", "e1"]


def test_damaged_text_is_named_by_table_and_key(damaged):
    client = damaged("UPDATE engine_boot SET header = '{bad' WHERE engine_id = 'e0'")
    with client.app.state.plane.database.read() as session:
        (found,) = inspection.damaged_texts(session)
    assert (found.table, found.key) == ("engine_boot", "e0/boot-a")
    assert found.reason == "header is not JSON"
