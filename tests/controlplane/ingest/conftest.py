"""A control plane with one known engine over real HTTP, its bounds small."""

import httpx
import pytest

from controlplane.app import create_app
from controlplane.settings import load_settings
from tests.support.receiver import TOKEN, Running
from tests.support.server import serving


@pytest.fixture
def running(sqlite_url):
    settings = load_settings(
        database_url=sqlite_url,
        engines=[{"id": "e0", "url": "http://127.0.0.1:1", "telemetry_token": TOKEN}],
        ingest={
            "max_body_bytes": 200_000,
            "max_inflated_bytes": 400_000,
            "queue_frames": 8,
            "gather_seconds": 0,
        },
        history={"ring_frames": 60},
        auth={"admin_token": "tt_admin-secret-16"},
    )
    app = create_app(settings)
    with serving(app) as url, httpx.Client() as client:
        yield Running(url, app.state.plane, client)
