from collections.abc import Iterator

import pytest

from tests.support.governed_plant import GovernedPlant, governed_plant


@pytest.fixture
def governed(sqlite_database, loopback_host) -> Iterator[GovernedPlant]:
    with governed_plant(sqlite_database, loopback_host) as made:
        yield made
