"""Server-sent events over a real connection."""

import base64
import json
import struct
import threading
import time

import httpx
import pytest

from controlplane.auth.access import SESSION_COOKIE
from controlplane.auth.roles import Role
from controlplane.web import live


@pytest.fixture
def served_site(site, loopback_host, monkeypatch):
    """The same application behind a real server; streams look often."""
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    switchboard, base_url = loopback_host
    with switchboard.mounted(base_url, site.app) as url:
        cookie = site.browsers[Role.VIEWER].cookie
        with httpx.Client(base_url=url, cookies={SESSION_COOKIE: cookie}, timeout=10) as client:
            yield site, client


def events(response: httpx.Response, wanted: int) -> list[tuple[str, str]]:
    found, name, data = [], "", []
    for line in response.iter_lines():
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and name:
            found.append((name, "\n".join(data)))
            name, data = "", []
            if len(found) >= wanted:
                break
    return found


def test_the_fleet_stream_sends_its_table_and_again_when_it_changes(served_site):
    site, client = served_site
    with client.stream("GET", "/live/fleet") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        threading.Timer(0.3, site.clock.advance, [300]).start()
        (first, html), (second, later) = events(response, 2)
    assert (first, second) == ("html", "html")
    assert "READY" in html
    assert "STALE" in later


def test_the_engine_stream_sends_parts_matrix_and_tick(served_site):
    _, client = served_site
    with client.stream("GET", "/live/engines/engine-0?load=10&phase=decode") as response:
        found = dict(events(response, 4))
    assert "Versions and rollback" in found["summary"]
    assert "Overflow at every rung" in found["config"]
    packed = base64.b64decode(found["load"])
    assert packed[:4] == b"TLDM"
    layers, experts = struct.unpack_from("<II", packed, 8)
    assert (layers, experts) == (2, 8)
    assert sum(struct.unpack_from("<16I", packed, 40)) == 2 * 10 * 2048
    assert json.loads(found["tick"])["ended"] > 0


def test_a_new_frame_sends_a_new_matrix(served_site):
    site, client = served_site

    def frame() -> None:
        site.clock.advance(1)
        site.plant.emit(site.clock.now(), 1)

    with client.stream("GET", "/live/engines/engine-0?load=10") as response:
        threading.Timer(0.3, frame).start()
        names = [name for name, _ in events(response, 6)]
    assert names[:4] == ["summary", "config", "load", "tick"]
    assert names.count("load") == 2


def test_an_unknown_action_ends_its_stream(served_site):
    _, client = served_site
    with client.stream("GET", "/live/actions/act-none") as response:
        assert events(response, 1)[0][0] == "gone"


def test_streams_need_a_login_and_are_bounded(served_site, monkeypatch):
    _, client = served_site
    assert httpx.get(f"{client.base_url}live/fleet").status_code == 401
    monkeypatch.setattr(live, "MAX_STREAMS", 0)
    answer = client.get("/live/fleet")
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) > 0


def test_a_stream_that_is_left_is_counted_no_more(served_site):
    site, client = served_site
    with client.stream("GET", "/live/fleet") as response:
        lines = response.iter_lines()  # held: a dropped iterator would close the stream
        next(lines)
        assert site.app.state.streams.open == 1
    deadline = time.monotonic() + 5
    while site.app.state.streams.open and time.monotonic() < deadline:
        time.sleep(0.02)
    assert site.app.state.streams.open == 0
