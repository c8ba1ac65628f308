import pytest

from controlplane.app import create_app
from controlplane.clock import ManualClock
from controlplane.settings import load_settings
from tests.support.expositions import OBSERVED, Endpoint, vllm
from tests.support.frames import START

ADMIN = "tt_admin-secret-16"


@pytest.fixture
def endpoint():
    return Endpoint(vllm())


@pytest.fixture
def clock():
    return ManualClock(START)


@pytest.fixture
def app(sqlite_url, clock, endpoint, loopback_host):
    """A control plane that reads one vLLM server; its jobs are run by hand."""
    switchboard, base_url = loopback_host
    with switchboard.mounted(base_url, endpoint) as url:
        settings = load_settings(
            database_url=sqlite_url, scrape={"max_body_bytes": 100_000},
            engines=[{"id": OBSERVED, "kind": "vllm", "url": url, "admin_token": "their-key"}],
            governor={"enabled": False}, auth={"admin_token": ADMIN},
        )  # fmt: skip
        yield create_app(settings, clock=clock)


@pytest.fixture
def plane(app):
    plane = app.state.plane
    plane.start()
    yield plane
    plane.stop()


@pytest.fixture
def scrape(plane, clock, endpoint):
    def scrape(text: str | None = None, *, after: float = 5.0) -> int:
        if text is not None:
            endpoint.text = text
        clock.advance(after)
        return plane.scraper.scrape()

    return scrape
