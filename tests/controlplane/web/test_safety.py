"""Roles, CSRF, escaping, headers, error pages."""

import pytest

from controlplane.auth.roles import Role
from controlplane.web.assets import ASSETS, url
from tests.support.frames import make_frame, received

HOSTILE = '"><script>alert(1)</script>'
OPERATOR_FORMS: tuple[tuple[str, dict[str, str]], ...] = (
    ("/actions/{action}/approve", {}),
    ("/actions/{action}/reject", {"reason": "no"}),
    ("/actions/{action}/abort", {}),
    ("/actions/{action}/revert", {"reason": "no"}),
    ("/engines/engine-0/rollback", {"kind": "bias", "to": "a" * 64, "reason": "x"}),
    ("/settings/freezes", {"scope": "engine:engine-0", "reason": "x", "ttl_seconds": "60"}),
    ("/settings/freezes/frz-1/lift", {}),
    ("/settings/pins", {"engine_id": "engine-0", "knob": "chunk_size", "reason": "x"}),
    ("/settings/pins/remove", {"engine_id": "engine-0", "knob": "chunk_size"}),
)
ADMIN_FORMS: tuple[tuple[str, dict[str, str]], ...] = (
    ("/policies/assign", {"engine_id": "engine-0", "policy": "default"}),
    ("/policies/default", {"document": "name: default", "note": "x"}),
    ("/settings/tokens", {"name": "t", "role": "viewer"}),
    ("/settings/tokens/revoke", {"name": "t"}),
    ("/settings/login-links", {"name": "t", "role": "viewer"}),
    ("/settings/engines", {"engine_id": "e9", "url": "http://127.0.0.1:1"}),
    ("/settings/engines/remove", {"engine_id": "e9"}),
)


def test_viewers_have_no_controls_and_the_server_refuses_them_anyway(looked_at):
    html = looked_at.browsers[Role.VIEWER].get(f"/actions/{looked_at.action_id}").text
    for button in ("approve", "reject", "abort"):
        assert f'id="{button}"' not in html
    good = looked_at.engine.last_known_good
    page = (
        looked_at.browsers[Role.VIEWER].get(f"/engines/engine-0/rollback?kind=bias&to={good}").text
    )
    assert 'id="roll-back"' not in page
    for path, data in OPERATOR_FORMS:
        answer = looked_at.post(Role.VIEWER, path.format(action=looked_at.action_id), data)
        assert answer.status_code == 403, path
        assert "this needs operator" in answer.text


def test_operators_do_not_administer(looked_at):
    html = looked_at.browsers[Role.OPERATOR].get("/settings").text
    assert 'id="tokens"' not in html
    assert 'id="new-freeze"' in html
    for path, data in ADMIN_FORMS:
        assert looked_at.post(Role.OPERATOR, path, data).status_code == 403, path
    assert looked_at.browsers[Role.OPERATOR].get("/api/v1/settings").json()["tokens"] == []


def test_a_form_without_its_csrf_token_changes_nothing(looked_at):
    for path, data in (*OPERATOR_FORMS, *ADMIN_FORMS):
        where = path.format(action=looked_at.action_id)
        for sent in (data, {**data, "csrf_token": "wrong"}):
            answer = looked_at.browsers[Role.ADMIN].post(where, data=sent)
            assert answer.status_code == 403, path
    denied = looked_at.browsers[Role.ADMIN].get("/api/v1/audit?kind=access.denied").json()
    assert denied[0]["detail"]["need"] == "csrf"


def test_hostile_names_and_reasons_are_escaped(site):
    frame = make_frame(engine_id=HOSTILE, started=site.clock.now(), group=HOSTILE, model=HOSTILE)
    site.app.state.history.append([received(frame)])
    freeze = {"scope": "engine:engine-0", "reason": HOSTILE, "ttl_seconds": "60"}
    assert site.post(Role.ADMIN, "/settings/freezes", freeze).status_code == 303
    for path in ("/", "/findings", "/slos", "/settings", "/audit", "/engines/engine-0",
                 "/actions?engine=" + HOSTILE, "/decisions?engine=" + HOSTILE,
                 "/audit?subject=" + HOSTILE, "/nothing/" + HOSTILE):  # fmt: skip
        answer = site.browsers[Role.ADMIN].get(path)
        assert "<script>alert" not in answer.text, path
        assert answer.status_code in {200, 404}


def test_every_answer_carries_a_strict_policy(looked_at):
    for path in ("/", "/nothing", "/api/v1/fleet", url("style.css")):
        answer = looked_at.browsers[Role.ADMIN].get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"


def test_without_a_login_every_page_says_how_to_get_a_link(looked_at):
    for path in ("/", "/settings", "/engines/engine-0", "/login", "/login?link=used"):
        answer = looked_at.anonymous.get(path, headers={"Accept": "text/html"})
        assert answer.status_code == 401
        assert "trimtab token login" in answer.text
        assert "engine-0" not in answer.text


def test_machines_get_problem_details(looked_at):
    answer = looked_at.anonymous.get("/settings", headers={"Accept": "*/*"})
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert looked_at.anonymous.get("/nothing").headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/actions/act-none", 404, "does not exist"),
        ("/engines/nobody", 404, "neither configured nor has it sent frames"),
        ("/decisions/none", 404, "does not exist"),
        ("/engines/engine-0/rollback?kind=config&to=99", 404, "no generation 99"),
        ("/engines/engine-0/rollback?kind=config&to=x", 422, "whole number"),
        ("/engines/engine-0/rollback?kind=everything", 422, "kind"),
        ("/engines/engine-0/rollback?kind=bias&to=" + "a" * 64, 404, "stores no bias"),
        ("/policies/none", 404, "known: default"),
    ],
)
def test_an_error_page_says_what_and_what_next(looked_at, path, status, told):
    answer = looked_at.browsers[Role.OPERATOR].get(path)
    assert answer.status_code == status
    assert told in answer.text
    assert "What to do" in answer.text


def test_an_error_page_links_back_only_to_this_site(looked_at):
    browser = looked_at.browsers[Role.VIEWER]
    here = browser.get("/nothing", headers={"Referer": "http://127.0.0.1/settings"}).text
    assert 'href="/settings">Back' in here
    for elsewhere in ("http://evil.example/x", "http://127.0.0.1//evil.example/"):
        html = browser.get("/nothing", headers={"Referer": elsewhere}).text
        assert "//evil" not in html


def test_assets_are_kept_by_their_hash(looked_at):
    for name in ASSETS:
        fresh = looked_at.anonymous.get(url(name))
        assert fresh.status_code == 200
        assert "immutable" in fresh.headers["cache-control"]
        old = looked_at.anonymous.get(f"/static/{name}?v=old")
        assert old.headers["cache-control"] == "no-cache"
    tag = looked_at.anonymous.get(url("style.css")).headers["etag"]
    again = looked_at.anonymous.get(url("style.css"), headers={"If-None-Match": tag})
    assert again.status_code == 304
    assert looked_at.anonymous.get("/static/../router.py").status_code == 404
    assert looked_at.anonymous.get("/static/%2e%2e/router.py").status_code == 404


def test_an_unreachable_engine_makes_an_error_page_not_a_crash(site):
    site.engine.trouble.down = True
    answer = site.browsers[Role.OPERATOR].get("/engines/engine-0/rollback")
    assert answer.status_code == 502
    assert "Check that the engine runs" in answer.text
    site.run(12)
    assert "UNREACHABLE" in site.browsers[Role.VIEWER].get("/").text
