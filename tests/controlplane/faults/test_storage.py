"""Disk full, database locked or gone: 503, a clear state, and recovery without a restart."""

import shutil

import pytest
from sqlalchemy import event
from starlette.testclient import TestClient

from controlplane.app import create_app
from controlplane.clock import ManualClock
from controlplane.db.database import Database, open_database
from controlplane.settings import load_settings
from tests.support.databases import migrated
from tests.support.frames import START, export_body, make_frame
from tests.support.postgresql import cluster

TOKEN = "tt_engine-zero-secret"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-protobuf"}


def _client(database: Database) -> TestClient:
    settings = load_settings(
        database_url=database.engine.url.render_as_string(hide_password=False),
        engines=[{"id": "e0", "url": "http://127.0.0.1:1", "telemetry_token": TOKEN}],
        ingest={"gather_seconds": 0},
    )
    return TestClient(create_app(settings, database=database, clock=ManualClock(START)))


def _post(client: TestClient, *frames):
    return client.post("/v1/logs", content=export_body(*frames), headers=HEADERS)


def _stored(client: TestClient) -> list[int]:
    frames = client.app.state.history.frames("e0", 0, 2e9)  # type: ignore[attr-defined]
    return [frame.header.sequence for frame in frames]


def test_a_full_disk_is_503_and_heals_when_there_is_room_again(sqlite_url):
    database = open_database(sqlite_url)
    limit = {"pages": 1}

    @event.listens_for(database.engine, "checkout")
    def bound(connection, _record, _proxy):
        connection.execute(f"PRAGMA max_page_count={limit['pages']}")

    limit["pages"] = 2**31 - 2
    with _client(database) as client:
        assert _post(client, make_frame(0)).status_code == 200
        limit["pages"] = 1  # SQLite takes the present size as the least
        refused = [_post(client, make_frame(s, experts=256, layers=20)) for s in range(1, 12)]
        codes = {response.status_code for response in refused}
        assert 503 in codes
        full = next(response for response in refused if response.status_code == 503)
        assert b"full" in full.content
        assert int(full.headers["retry-after"]) >= 1
        assert client.get("/readyz").status_code == 503
        assert "full" in client.get("/readyz").text
        counted = 'trimtab_ingest_frames_total{engine="e0",outcome="storage-unavailable"}'
        assert counted in client.get("/metrics").text

        limit["pages"] = 2**31 - 2
        again = [_post(client, make_frame(s, experts=256, layers=20)) for s in range(1, 12)]
        assert {response.status_code for response in again} == {200}
        assert client.get("/readyz").status_code == 200
        assert _stored(client) == list(range(12))


def test_a_locked_database_is_503_and_heals_when_the_lock_goes(sqlite_url):
    database = open_database(sqlite_url, busy_seconds=0.05)
    other = open_database(sqlite_url)
    with _client(database) as client:
        assert _post(client, make_frame(0)).status_code == 200
        with other.write():
            response = _post(client, make_frame(1))
            assert response.status_code == 503
            assert b"locked" in response.content
            assert client.get("/healthz").status_code == 200
        assert _post(client, make_frame(1)).status_code == 200
        assert _stored(client) == [0, 1]
    other.close()


def test_a_database_that_goes_away_is_503_and_heals_when_it_is_back():
    with cluster() as server:
        url = server.new_database()
        with migrated(url):
            pass
        database = open_database(url)
        with _client(database) as client:
            assert _post(client, make_frame(0)).status_code == 200
            server.stop()
            assert _post(client, make_frame(1)).status_code == 503
            ready = client.get("/readyz")
            assert ready.status_code == 503
            assert ready.json()["checks"][0] == {
                "name": "database", "ok": False, "detail": ready.json()["checks"][0]["detail"],
            }  # fmt: skip
            server.start()
            assert _post(client, make_frame(0), make_frame(1)).status_code == 200
            assert client.get("/readyz").status_code == 200 or "writer" in ready.text
            assert _stored(client) == [0, 1]


def _remove(folder):
    for name in ("trimtab.db", "trimtab.db-wal", "trimtab.db-shm"):
        (folder / name).unlink(missing_ok=True)


def test_a_file_that_is_removed_is_503_and_heals_when_one_is_put_back(sqlite_url, tmp_path):
    kept = tmp_path / "kept"
    shutil.copy(tmp_path / "trimtab.db", kept)
    with _client(open_database(sqlite_url)) as client:
        assert _post(client, make_frame(0)).status_code == 200
        with _client(open_database(f"sqlite:///{kept}")):
            pass  # a copy that knows the engine's token
        _remove(tmp_path)
        refused = _post(client, make_frame(1))
        assert refused.status_code == 503
        assert b"there is no database file" in refused.content
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert "there is no database file" in ready.json()["checks"][0]["detail"]
        assert not (tmp_path / "trimtab.db").exists()

        kept.rename(tmp_path / "trimtab.db")
        assert _post(client, make_frame(1)).status_code == 200
        assert client.get("/readyz").status_code == 200
        assert _stored(client) == [1]


def test_a_file_that_is_moved_away_and_back_has_lost_nothing(sqlite_url, tmp_path):
    with _client(open_database(sqlite_url)) as client:
        assert _post(client, make_frame(0)).status_code == 200
        (tmp_path / "trimtab.db").rename(tmp_path / "away")
        assert _post(client, make_frame(1)).status_code == 503
        (tmp_path / "away").rename(tmp_path / "trimtab.db")
        assert _post(client, make_frame(1)).status_code == 200
        assert _stored(client) == [0, 1]


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path):
    (tmp_path / "trimtab.db").write_bytes(b"not a database" * 1000)
    database = open_database(f"sqlite:///{tmp_path}/trimtab.db")
    with pytest.raises(Exception, match="not a database"):
        database.answers()
    database.close()
