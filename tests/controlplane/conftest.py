"""Fixtures of the control plane's tests."""

from collections.abc import Iterator

import pytest

from tests.support.loopback_server import Switchboard, served


@pytest.fixture(scope="session")
def loopback_host() -> Iterator[tuple[Switchboard, str]]:
    """One HTTP server for all applications of the session."""
    switchboard = Switchboard()
    with served(switchboard) as base_url:
        yield switchboard, base_url
