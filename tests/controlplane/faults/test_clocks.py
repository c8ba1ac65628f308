"""Clock jumps, boots, and sequences that begin anew."""

import pytest
from starlette.testclient import TestClient

from controlplane.app import create_app
from controlplane.clock import ManualClock
from controlplane.ingest.writer import FrameWriter
from controlplane.metrics import Instruments
from controlplane.settings import load_settings
from tests.support.frames import START, export_body, make_frame

TOKEN = "tt_engine-zero-secret"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-protobuf"}


@pytest.fixture
def client(sqlite_url):
    settings = load_settings(
        database_url=sqlite_url,
        engines=[{"id": "e0", "url": "http://127.0.0.1:1", "telemetry_token": TOKEN}],
        history={"ring_frames": 120},
        ingest={"gather_seconds": 0},
    )
    with TestClient(create_app(settings, clock=ManualClock(START + 600))) as client:
        yield client


def _post(client, *frames):
    return client.post("/v1/logs", content=export_body(*frames), headers=HEADERS)


def _times(client) -> list[float]:
    frames = client.app.state.history.frames("e0", 0, 2e9)
    return [frame.header.started_unix_seconds - START for frame in frames]


@pytest.mark.parametrize("jump", [-3600.0, 3600.0, 86400.0 * 365])
def test_an_engine_clock_that_jumps_loses_no_frame(client, jump):
    starts = [START + i + (jump if i >= 30 else 0) for i in range(90)]
    for i, started in enumerate(starts):
        assert _post(client, make_frame(i, started=started)).status_code == 200
        if i % 20 == 0:
            client.app.state.plane.upkeep.seal()
    client.app.state.plane.upkeep.seal()
    assert sorted(_times(client)) == sorted(start - START for start in starts)
    assert client.app.state.history.gaps("e0", 0, 2e9) == []


def test_frames_before_1970_or_after_2100_are_refused(client):
    response = _post(client, make_frame(0, started=-5.0))
    assert response.status_code == 400
    assert b"started_unix_seconds is -5.0" in response.content


def test_a_restart_with_a_new_boot_id_is_no_gap(client):
    _post(client, make_frame(0), make_frame(1))
    _post(client, make_frame(0, boot_id="boot-b", started=START + 10))
    assert _times(client) == [0, 1, 10]
    assert client.app.state.history.gaps("e0", 0, 2e9) == []


def test_a_sequence_that_begins_anew_without_a_new_boot_is_told(client):
    _post(client, *(make_frame(i) for i in range(5)))
    response = _post(client, make_frame(0, started=START + 60), make_frame(5))
    assert response.status_code == 200
    assert b"needs a new boot_id" in response.content
    assert _times(client) == [0, 1, 2, 3, 4, 5]


def test_the_age_of_the_newest_frame_is_shown(client):
    _post(client, make_frame(0))
    text = client.get("/metrics").text
    assert 'trimtab_frame_age_seconds{engine="e0"} 599.0' in text


def _age(client) -> float:
    lines = client.get("/metrics").text.splitlines()
    return float(next(line for line in lines if "frame_age_seconds{" in line).split()[-1])


@pytest.mark.parametrize("starts", [(600, 30 * 86_400 + 600, 600), (30 * 86_400,)])
def test_a_frame_of_the_future_hides_no_silence(client, starts):
    for i, start in enumerate(starts):
        _post(client, make_frame(i, started=START + start))
    assert _age(client) == 0
    plane = client.app.state.plane
    plane.clock.advance(40)
    assert 39 <= _age(client) <= 40
    again = FrameWriter(plane.history, plane.settings.ingest, plane.clock, Instruments())
    again.start()
    text = again._instruments.render().decode()
    assert 'trimtab_frame_age_seconds{engine="e0"} 40.0' in text
