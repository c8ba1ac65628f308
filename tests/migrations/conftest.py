"""The same databases as the control plane's tests, but empty."""

from collections.abc import Iterator

import pytest

from controlplane.db.database import Database, open_database


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request, tmp_path) -> Iterator[Database]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/trimtab.db"
    else:
        url = request.getfixturevalue("postgresql").new_database()
    database = open_database(url)
    yield database
    database.close()
