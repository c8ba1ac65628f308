"""Every change of access is in the audit log: who, when, what, and never the secret."""

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from controlplane.app import create_app
from controlplane.audit import log
from controlplane.auth.access import SESSION_COOKIE
from controlplane.clock import ManualClock
from controlplane.settings import load_settings

ADMIN = "tt_admin-secret-16"
HEADERS = {"Authorization": f"Bearer {ADMIN}"}
CONFIGURED = [{"id": "e0", "url": "http://127.0.0.1:1", "admin_token": "engine-secret"}]


@pytest.fixture
def clock():
    return ManualClock(1_700_000_000.0)


def _app(url: str, clock: ManualClock, engines: list | None = None) -> FastAPI:
    settings = load_settings(
        database_url=url, auth={"admin_token": ADMIN}, governor={"enabled": False},
        engines=CONFIGURED if engines is None else engines,
    )  # fmt: skip
    return create_app(settings, clock=clock)


def _events(app: FastAPI, kind: str) -> list[dict]:
    with app.state.plane.database.read() as session:
        assert log.verify(session).holds
        return [log.as_dict(row) for row in log.newest(session, kind=kind)][::-1]


def _said(app: FastAPI, kind: str) -> list[tuple]:
    return [(e["actor"], e["kind"], e["subject"], e["at"]) for e in _events(app, kind)]


@pytest.fixture
def app(sqlite_url, clock):
    return _app(sqlite_url, clock)


@pytest.fixture
def client(app):
    with TestClient(app, base_url="http://127.0.0.1", headers=HEADERS) as client:
        yield client


def test_making_and_revoking_a_token_are_two_events_without_the_secret(app, client, clock):
    clock.advance(10)
    body = {"name": "eng", "role": "engine", "engine_id": "e0", "lifetime_seconds": 60}
    secret = client.post("/api/v1/tokens", json=body).json()["token"]
    clock.advance(5)
    client.delete("/api/v1/tokens/eng")
    client.delete("/api/v1/tokens/eng")
    events = [e for e in _events(app, "token") if e["subject"] == "eng"]
    assert [(e["actor"], e["kind"], e["at"]) for e in events] == [
        ("settings:admin", "token.created", 1_700_000_010.0),
        ("settings:admin", "token.revoked", 1_700_000_015.0),
    ]
    assert events[0]["detail"] == {"role": "engine", "expires_at": 1_700_000_070.0}
    assert events[0]["engine_id"] == "e0"
    assert secret not in str(events)


def test_a_refused_change_leaves_no_event(app, client):
    before = _events(app, "")
    assert client.post("/api/v1/tokens", json={"name": "x", "role": "engine"}).status_code == 422
    assert client.delete("/api/v1/tokens/nobody").status_code == 404
    assert client.delete("/api/v1/engines/e0").status_code == 409
    assert _events(app, "") == before


def test_tokens_and_engines_of_the_settings_are_events_once(app, client, sqlite_url, clock):
    first = [("settings", "token.created", "settings:admin", clock.now())]
    engine = [("settings", "engine.added", "e0", clock.now())]
    assert (_said(app, "token"), _said(app, "engine")) == (first, engine)
    clock.advance(60)
    again = _app(sqlite_url, clock)
    with TestClient(again, base_url="http://127.0.0.1"):
        assert (_said(again, "token"), _said(again, "engine")) == (first, engine)
    moved = _app(sqlite_url, clock, [{"id": "e1", "url": "http://127.0.0.1:1"}])
    with TestClient(moved, base_url="http://127.0.0.1"):
        assert _said(moved, "engine")[1:] == [
            ("settings", "engine.removed", "e0", clock.now()),
            ("settings", "engine.added", "e1", clock.now()),
        ]


def test_a_login_link_its_session_and_the_log_out_are_events(app, client):
    path = client.post("/api/v1/login-links", json={"name": "anna", "role": "viewer"}).json()
    opened = client.get(path["path"])
    cookie = opened.cookies[SESSION_COOKIE]
    with app.state.plane.database.engine.connect() as connection:
        csrf = connection.exec_driver_sql("SELECT csrf_token FROM web_session").scalar_one()
    del client.headers["Authorization"]
    assert client.post("/logout", headers={"X-CSRF-Token": csrf}).status_code == 204
    assert [row[:3] for row in _said(app, "login")] == [
        ("settings:admin", "login.link_created", "anna"),
        ("anna", "login.session_opened", "anna"),
        ("anna", "login.session_closed", "anna"),
    ]
    told = str(_events(app, "login"))
    assert cookie not in told
    assert path["path"].partition("=")[2] not in told


def test_registering_and_dropping_an_engine_are_events_without_its_token(app, client, clock):
    body = {"engine_id": "e1", "url": "http://127.0.0.1:2", "admin_token": "other-secret"}
    client.post("/api/v1/engines", json=body)
    client.delete("/api/v1/engines/e1")
    added, removed = _events(app, "engine")[1:]
    assert (added["actor"], added["kind"], added["value_to"]) == (
        "settings:admin", "engine.added", "http://127.0.0.1:2",
    )  # fmt: skip
    assert (removed["kind"], removed["value_from"]) == ("engine.removed", "http://127.0.0.1:2")
    assert "other-secret" not in str([added, removed])


def test_an_engine_whose_settings_moved_is_an_event_with_both_addresses(sqlite_url, clock):
    seen = []
    for url in ("http://127.0.0.1:1", "http://127.0.0.1:9"):
        app = _app(sqlite_url, clock, [{"id": "e0", "url": url}])
        with TestClient(app, base_url="http://127.0.0.1"):
            seen.append((_events(app, "engine.changed"), app.state.engines.get("e0").url))
    (changed,), registered = seen[-1]
    assert (changed["value_from"], changed["value_to"]) == (
        "http://127.0.0.1:1", "http://127.0.0.1:9",
    )  # fmt: skip
    assert registered == "http://127.0.0.1:9"
