"""Fixtures of the control plane's tests."""

from collections.abc import Iterator

import pytest

from controlplane.db.database import Database
from tests.support.databases import migrated
from tests.support.postgresql import Cluster, cluster


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def sqlite_database(tmp_path) -> Iterator[Database]:
    with migrated(f"sqlite:///{tmp_path}/trimtab.db") as database:
        yield database


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path) -> Iterator[Database]:
    """Each test that takes this runs on both databases."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/trimtab.db"
    else:
        url = request.getfixturevalue("postgresql").new_database()
    with migrated(url) as database:
        yield database
