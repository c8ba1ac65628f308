"""Fixtures for databases: copies of one that was migrated once. Loaded by tests/conftest.py."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.db.database import Database, open_database
from tests.support.databases import migrated
from tests.support.postgresql import Cluster, cluster


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(scope="session")
def postgresql_template(postgresql) -> str:
    url = postgresql.new_database()
    with migrated(url):
        pass
    return url.rpartition("/")[2]


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("template") / "trimtab.db"
    with migrated(f"sqlite:///{file}"):
        pass
    return file


@pytest.fixture
def sqlite_url(sqlite_template, tmp_path) -> str:
    shutil.copy(sqlite_template, tmp_path / "trimtab.db")
    return f"sqlite:///{tmp_path}/trimtab.db"


@pytest.fixture
def sqlite_database(sqlite_url) -> Iterator[Database]:
    database = open_database(sqlite_url)
    yield database
    database.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request) -> str:
    """Each test that takes this runs on both databases."""
    if request.param == "sqlite":
        return request.getfixturevalue("sqlite_url")
    template = request.getfixturevalue("postgresql_template")
    return request.getfixturevalue("postgresql").new_database(template)


@pytest.fixture
def database(database_url) -> Iterator[Database]:
    database = open_database(database_url)
    yield database
    database.close()
