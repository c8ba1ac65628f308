"""Every page, for every role: renders, has a JSON twin, loads nothing from elsewhere."""

import re

import pytest

from controlplane.auth.roles import Role

PAGES = (
    "/", "/engines/engine-0", "/engines/engine-0?window=3600&load=300&phase=decode&scale=share",
    "/findings", "/findings?engine=engine-0", "/actions", "/actions?engine=engine-0&phase=failed",
    "/decisions", "/decisions?acted=no", "/slos", "/policies", "/policies/default", "/audit",
    "/audit?kind=action", "/settings", "/api", "/engines/engine-0/rollback",
    "/engines/engine-0/rollback?kind=config",
)  # fmt: skip


def links(html: str) -> list[str]:
    return re.findall(r'(?:href|src|action|hx-get|data-live|data-charts)="([^"]*)"', html)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN])
def test_every_page_renders_for_every_role(looked_at, role):
    for path in PAGES:
        answer = looked_at.browsers[role].get(path)
        assert answer.status_code == 200, (path, answer.text)
        assert answer.headers["cache-control"] == "no-store", path
        assert "<h1>" in answer.text, path


def test_every_page_has_a_json_twin(looked_at):
    for path in PAGES:
        html = looked_at.browsers[Role.ADMIN].get(path).text
        (twin,) = re.findall(r'rel="alternate" type="application/json" href="([^"]*)"', html)
        answer = looked_at.browsers[Role.ADMIN].get(twin.replace("&amp;", "&"))
        assert answer.status_code == 200, (path, twin, answer.text)
        assert answer.json() is not None


def test_pages_load_and_link_nothing_from_elsewhere(looked_at):
    for path in (*PAGES, f"/actions/{looked_at.action_id}"):
        html = looked_at.browsers[Role.ADMIN].get(path).text
        outside = [link for link in links(html) if not re.match(r"/(?!/)|#|\?|$", link)]
        assert not outside, (path, outside)


def test_every_link_of_a_page_leads_somewhere(looked_at):
    seen: set[str] = set()
    for path in (*PAGES, f"/actions/{looked_at.action_id}"):
        html = looked_at.browsers[Role.ADMIN].get(path).text
        seen |= {
            link.replace("&amp;", "&").partition("#")[0]
            for link in re.findall(r'(?:href|src|hx-get)="(/[^"]*)"', html)
        }
    for link in sorted(seen):
        assert looked_at.browsers[Role.ADMIN].get(link).status_code == 200, link


def test_nothing_is_inline(looked_at):
    for path in (*PAGES, f"/actions/{looked_at.action_id}"):
        html = looked_at.browsers[Role.ADMIN].get(path).text
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:|<script(?![^>]*src=)", html)


def test_the_fleet_shows_state_objectives_budget_and_that_it_is_simulated(see):
    html = see("/")
    for word in (
        "READY",
        "simulated",
        "p99",
        "99 % of requests under 200 ms",
        "budget",
        "engine-0",
    ):
        assert word in html


def test_the_engine_page_shows_rungs_config_and_bias(see):
    html = see("/engines/engine-0")
    for word in ("Overflow at every rung", "capacity factor", "Last known good", 'id="heatmap"'):
        assert word in html
    for chart in ("ttft", "tpot", "overflow", "load_cv", "step", "a2a"):
        assert f'data-chart="{chart}"' in html


def test_a_drift_shows_as_finding_cause_and_waiting_action(looked_at, see):
    assert "Cause: bias." in see("/findings")
    assert "Roll back to the last known good" in see("/engines/engine-0")
    html = see(f"/actions/{looked_at.action_id}")
    for word in ("awaiting approval", "What was seen", "telemetry is fresh", "Alternatives",
                 "Verification", "Timeline", 'id="approve"'):  # fmt: skip
        assert word in html


def test_why_not_is_shown_with_its_gates(looked_at, see):
    decision = looked_at.browsers[Role.VIEWER].get("/api/v1/decisions").json()[0]["decision_id"]
    html = see(f"/decisions/{decision}")
    assert "Nothing was to be done" in html
    assert "Gates" in html


def test_the_rollback_page_shows_difference_prediction_and_blast_radius(looked_at, see):
    good = looked_at.engine.last_known_good
    html = see(f"/engines/engine-0/rollback?kind=bias&to={good}")
    assert html.count('name="layers"') == 2
    assert "0: 0.500 → 0.000" in html
    assert "Blast radius" in html
    assert looked_at.engine.etag.strip('"') in html
    predicted = see(f"/engines/engine-0/rollback/what-if?kind=bias&to={good}")
    assert "0.900 ± 0.010" in predicted


def test_a_stale_engine_is_said_to_be_stale_and_its_verdicts_with_it(site):
    site.clock.advance(300)
    html = site.browsers[Role.VIEWER].get("/").text
    assert "STALE" in html
    assert "The newest frame is" in html
    assert "✓</span> met" not in html


def test_a_path_that_nobody_serves_keeps_the_bar_of_the_visitor(looked_at):
    answer = looked_at.browsers[Role.OPERATOR].get("/nothing-here")
    assert answer.status_code == 404
    assert "anna-operator" in answer.text
    assert 'action="/log-out"' in answer.text
    assert looked_at.csrf(Role.OPERATOR) in answer.text
    refused = looked_at.post(Role.VIEWER, "/engines/engine-0/rollback", {"kind": "bias"})
    assert refused.status_code in {403, 422}
    assert "anna-viewer" in refused.text
    stranger = looked_at.anonymous.get("/nothing-here", headers={"Accept": "text/html"})
    assert stranger.status_code == 404
    assert "Log out" not in stranger.text


def test_an_engine_of_the_settings_is_dropped_there_and_another_here(site):
    page = site.browsers[Role.ADMIN].get("/settings").text
    assert "from trimtab.toml" in page
    assert "/settings/engines/remove" not in page
    form = {"engine_id": "by-hand", "url": "http://127.0.0.1:1", "admin_token": "a-token"}
    assert site.post(Role.ADMIN, "/settings/engines", form).status_code == 303
    page = site.browsers[Role.ADMIN].get("/settings").text
    assert page.count("/settings/engines/remove") == 1
    assert 'name="engine_id" value="by-hand"' in page
    told = site.browsers[Role.ADMIN].get("/api/v1/settings").json()["engines"]
    assert [(e["engine_id"], e["from_settings"]) for e in told] == [
        ("by-hand", False), ("engine-0", True),
    ]  # fmt: skip


def test_a_bad_engine_or_token_in_a_form_is_a_page_that_repeats_no_secret(site):
    form = {"engine_id": "e9", "url": "http://127.0.0.1:1", "admin_token": "pässwort"}
    refused = site.post(Role.ADMIN, "/settings/engines", form)
    assert refused.status_code == 422
    assert "admin_token" in refused.text
    assert "pässwort" not in refused.text
    bad = site.post(Role.ADMIN, "/settings/tokens", {"name": "a/b", "role": "viewer"})
    assert bad.status_code == 422
    for word in ("a/b", "name", "letter or digit first"):
        assert word in bad.text


def test_the_glossary_explains_every_word_that_leads_to_it(looked_at):
    html = looked_at.browsers[Role.VIEWER].get("/glossary").text
    anchors = set(re.findall(r'<div id="([^"]+)"', html))
    named = set()
    for path in (*PAGES, f"/actions/{looked_at.action_id}"):
        page = looked_at.browsers[Role.ADMIN].get(path).text
        assert 'href="/glossary"' in page, path
        named |= set(re.findall(r'href="/glossary#([^"]+)"', page))
    assert named
    assert named <= anchors


def test_the_chain_is_verified_on_the_audit_page(looked_at, see):
    assert "whole" in see("/audit/verify")


def test_an_empty_control_plane_says_how_to_begin(sqlite_url):
    from starlette.testclient import TestClient

    from controlplane.app import create_app
    from controlplane.settings import load_settings

    app = create_app(load_settings(database_url=sqlite_url))
    with TestClient(app, base_url="http://127.0.0.1", headers={"Accept": "text/html"}) as client:
        link = app.state.access.sessions.new_link("anna", Role.VIEWER, by="test")
        client.get(f"/login?link={link}")
        assert "No engine yet" in client.get("/").text
