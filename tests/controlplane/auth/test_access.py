"""Roles, tokens, login links and sessions, through the application."""

import pytest
from fastapi import FastAPI
from sqlalchemy import text
from starlette.testclient import TestClient

from controlplane.app import MAX_BODY_BYTES, create_app
from controlplane.auth.access import Denied
from controlplane.clock import ManualClock
from controlplane.settings import load_settings

ADMIN = "tt_admin-secret-16"


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def app(sqlite_url, clock) -> FastAPI:
    settings = load_settings(
        database_url=sqlite_url,
        auth={"admin_token": ADMIN, "login_link_seconds": 60, "session_hours": 1},
        engines=[{"id": "e0", "url": "http://127.0.0.1:1", "admin_token": "engine-secret"}],
    )
    return create_app(settings, clock=clock)


@pytest.fixture
def client(app):
    with TestClient(app, base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def denied(app) -> list[Denied]:
    found: list[Denied] = []
    app.state.access.on_denied.append(found.append)
    return found


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _token(client, role: str, **more) -> str:
    body = {"name": f"a-{role}", "role": role, **more}
    made = client.post("/api/v1/tokens", json=body, headers=_bearer(ADMIN))
    assert made.status_code == 201, made.text
    return made.json()["token"]


def _log_in(client, role: str = "operator") -> str:
    link = client.post(
        "/api/v1/login-links", json={"name": "anna", "role": role}, headers=_bearer(ADMIN)
    )
    return link.json()["path"]


def test_without_a_token_nothing_but_probes_answers(client):
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200
    assert client.get("/metrics").status_code == 200
    response = client.get("/api/v1/engines")
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("role", "reads", "administers"),
    [("viewer", 200, 403), ("operator", 200, 403), ("admin", 200, 200),
     ("alertmanager", 403, 403)],
)  # fmt: skip
def test_roles_are_ordered_for_people_and_exact_for_machines(client, role, reads, administers):
    headers = _bearer(_token(client, role))
    assert client.get("/api/v1/engines", headers=headers).status_code == reads
    assert client.get("/api/v1/tokens", headers=headers).status_code == administers


def test_every_403_reaches_the_hook(client, denied):
    client.get("/api/v1/tokens", headers=_bearer(_token(client, "viewer")))
    (refusal,) = denied
    assert (refusal.actor, refusal.need, refusal.path) == ("a-viewer", "admin", "/api/v1/tokens")


def test_an_engine_token_is_bound_to_one_engine(client):
    body = {"name": "t", "role": "engine"}
    response = client.post("/api/v1/tokens", json=body, headers=_bearer(ADMIN))
    assert response.status_code == 422
    assert response.json()["field"] == "engine_id"
    token = _token(client, "engine", engine_id="e0")
    assert client.get("/api/v1/whoami", headers=_bearer(token)).json()["engine_id"] == "e0"


def test_tokens_expire_and_are_revoked(client, clock):
    short = _token(client, "viewer", lifetime_seconds=10)
    long = _token(client, "operator")
    assert client.get("/api/v1/whoami", headers=_bearer(short)).status_code == 200
    clock.advance(11)
    assert client.get("/api/v1/whoami", headers=_bearer(short)).status_code == 401
    assert client.get("/api/v1/whoami", headers=_bearer(long)).status_code == 200
    gone = client.delete("/api/v1/tokens/a-operator", headers=_bearer(ADMIN))
    assert gone.status_code == 204
    assert client.get("/api/v1/whoami", headers=_bearer(long)).status_code == 401


def test_secrets_are_stored_hashed_and_listed_never(client, app):
    token = _token(client, "viewer")
    listed = client.get("/api/v1/tokens", headers=_bearer(ADMIN)).text
    assert token not in listed
    database = app.state.plane.database
    with database.engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM access_token").all()
    assert token not in str(rows)
    assert ADMIN not in str(rows)


def test_a_name_is_taken_once(client):
    _token(client, "viewer")
    body = {"name": "a-viewer", "role": "viewer"}
    assert client.post("/api/v1/tokens", json=body, headers=_bearer(ADMIN)).status_code == 409


def test_a_login_link_works_once_and_sets_a_strict_cookie(client):
    path = _log_in(client)
    response = client.get(path)
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/api/v1/whoami").json() == {
        "name": "anna", "role": "operator", "engine_id": None,
    }  # fmt: skip
    client.cookies.clear()
    assert client.get(path).status_code == 401


def test_a_login_link_and_a_session_end(client, app, clock):
    path = _log_in(client)
    clock.advance(61)
    assert client.get(path).status_code == 401
    client.get(_log_in(client))
    assert client.get("/api/v1/whoami").status_code == 200
    clock.advance(3601)
    assert client.get("/api/v1/whoami").status_code == 401
    assert app.state.access.sessions.forget_expired() == 3


def test_a_cookie_alone_changes_nothing(client, app, denied):
    client.get(_log_in(client, "admin"))
    body = {"name": "x", "role": "viewer"}
    assert client.post("/api/v1/tokens", json=body).status_code == 403
    assert denied[-1].need == "csrf"
    with app.state.plane.database.engine.connect() as connection:
        csrf = connection.exec_driver_sql("SELECT csrf_token FROM web_session").scalar_one()
    made = client.post("/api/v1/tokens", json=body, headers={"X-CSRF-Token": csrf})
    assert made.status_code == 201
    assert client.post("/logout", data={"csrf_token": "wrong"}).status_code == 403
    assert client.post("/logout", data={"csrf_token": csrf}).status_code == 204
    assert client.get("/api/v1/whoami").status_code == 401


def test_machines_do_not_log_in(client):
    response = client.post(
        "/api/v1/login-links", json={"name": "m", "role": "engine"}, headers=_bearer(ADMIN)
    )
    assert response.status_code == 422


def test_engines_are_registered_by_people_only(client, app):
    registry = app.state.engines
    assert [engine.admin_token for engine in registry.all()] == ["engine-secret"]
    assert "engine-secret" not in repr(registry.all())
    body = {"engine_id": "e1", "url": "http://127.0.0.1:2", "admin_token": "other-secret"}
    assert client.post("/api/v1/engines", json=body, headers=_bearer(ADMIN)).status_code == 201
    assert client.post("/api/v1/engines", json=body, headers=_bearer(ADMIN)).status_code == 409
    assert registry.get("e1").admin_token == "other-secret"
    assert client.delete("/api/v1/engines/e0", headers=_bearer(ADMIN)).status_code == 409
    assert client.delete("/api/v1/engines/e1", headers=_bearer(ADMIN)).status_code == 204
    assert client.delete("/api/v1/engines/e1", headers=_bearer(ADMIN)).status_code == 404


def test_an_unknown_field_is_an_error_that_names_it(client):
    body = {"name": "x", "role": "viewer", "rloe": 1}
    response = client.post("/api/v1/tokens", json=body, headers=_bearer(ADMIN))
    assert response.status_code == 422
    assert response.json()["field"] == "rloe"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "http://[::1"), ("url", "http://x:99999999"), ("url", "https://é.☃"),
        ("url", "http://:80"), ("admin_token", "two\nlines"), ("admin_token", "pässwort"),
        ("engine_id", ".."),
    ],
)  # fmt: skip
def test_an_engine_that_could_never_be_asked_is_not_registered(client, field, value):
    body = {"engine_id": "e9", "url": "http://127.0.0.1:1", field: value}
    response = client.post("/api/v1/engines", json=body, headers=_bearer(ADMIN))
    assert response.status_code == 422
    assert response.json()["field"] == field
    assert value not in response.text or field != "admin_token"


@pytest.mark.parametrize("name", ["a/b", "a\x00b", "", "x" * 129, "two words"])
@pytest.mark.parametrize(("path", "role"), [("tokens", "viewer"), ("login-links", "viewer")])
def test_a_name_that_no_url_or_database_takes_is_refused_with_its_bound(client, path, role, name):
    response = client.post(
        f"/api/v1/{path}", json={"name": name, "role": role}, headers=_bearer(ADMIN)
    )
    problem = response.json()
    assert (response.status_code, problem["field"]) == (422, "name")
    assert problem["value"] == name[:200]
    assert "letter or digit first" in problem["bound"]


def test_a_name_with_a_slash_from_before_it_was_refused_can_be_revoked(client, app):
    token = _token(client, "viewer")
    with app.state.plane.database.write() as session:
        session.execute(text("UPDATE access_token SET name = 'old/name' WHERE name = 'a-viewer'"))
    assert client.delete("/api/v1/tokens/old/name", headers=_bearer(ADMIN)).status_code == 204
    assert client.get("/api/v1/whoami", headers=_bearer(token)).status_code == 401


def test_an_infinite_lifetime_is_refused(client):
    response = client.post(
        "/api/v1/tokens", content='{"name": "x", "role": "viewer", "lifetime_seconds": 1e999}',
        headers=_bearer(ADMIN) | {"Content-Type": "application/json"},
    )  # fmt: skip
    assert response.status_code == 422
    assert response.json()["field"] == "lifetime_seconds"


def test_a_body_over_the_bound_is_answered_413(client):
    response = client.post(
        "/api/v1/tokens", content=b'"' + b"a" * MAX_BODY_BYTES + b'"',
        headers=_bearer(ADMIN) | {"Content-Type": "application/json"},
    )  # fmt: skip
    assert response.status_code == 413


def test_an_unforeseen_error_is_problem_details_without_its_text(app, monkeypatch):
    def fails(*_args: object) -> None:
        raise RuntimeError("inner secret")

    monkeypatch.setattr(app.state.access.tokens, "all", fails)
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        response = client.get("/api/v1/tokens", headers=_bearer(ADMIN))
    assert response.status_code == 500
    assert response.json()["type"] == "internal"
    assert "secret" not in response.text
