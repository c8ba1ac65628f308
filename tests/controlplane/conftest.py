"""Fixtures of the control plane's tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.db.database import Database, open_database
from tests.support.databases import migrated
from tests.support.loopback_server import Switchboard, served
from tests.support.postgresql import Cluster, cluster


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory) -> Path:
    """A migrated SQLite file, copied for each test: migrating takes longer than most tests."""
    path = tmp_path_factory.mktemp("template") / "trimtab.db"
    with migrated(f"sqlite:///{path}"):
        pass
    return path


@pytest.fixture
def sqlite_database(tmp_path, sqlite_template) -> Iterator[Database]:
    path = tmp_path / "trimtab.db"
    shutil.copyfile(sqlite_template, path)
    database = open_database(f"sqlite:///{path}")
    yield database
    database.close()


@pytest.fixture(scope="session")
def loopback_host() -> Iterator[tuple[Switchboard, str]]:
    """One HTTP server for all applications of the session."""
    switchboard = Switchboard()
    with served(switchboard) as base_url:
        yield switchboard, base_url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path) -> Iterator[Database]:
    """Each test that takes this runs on both databases."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/trimtab.db"
    else:
        url = request.getfixturevalue("postgresql").new_database()
    with migrated(url) as database:
        yield database
