from collections.abc import Iterator

import pytest

from tests.support.governed import Ground, make_ground


@pytest.fixture
def ground(sqlite_database, loopback_host) -> Iterator[Ground]:
    with make_ground(sqlite_database, 1, loopback_host) as made:
        yield made


@pytest.fixture
def group(sqlite_database, loopback_host) -> Iterator[Ground]:
    with make_ground(sqlite_database, 3, loopback_host) as made:
        yield made
