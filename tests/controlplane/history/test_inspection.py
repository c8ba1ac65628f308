"""How large tables are, by the database's own word."""

import pytest
from sqlalchemy import text

from controlplane.db.database import open_database
from controlplane.db.models import load_models
from controlplane.history.inspection import sizes
from controlplane.history.partitions import TABLES
from tests.support.history import filled

OUR_BYTES = (
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
    " AND relname <> 'alembic_version'"
)


@pytest.fixture
def database(postgresql, postgresql_template):
    database = open_database(postgresql.new_database(postgresql_template))
    yield database
    database.close()


def test_ordinary_and_partitioned_tables_have_the_bytes_that_postgresql_says(database):
    filled(database)
    load_models()
    found = {size.table: size.size_bytes for size in sizes(database)}
    with database.read() as session:
        ring = session.scalar(text("SELECT pg_total_relation_size('load_ring')"))
        whole = session.scalar(text(OUR_BYTES))
    assert found["load_ring"] == ring > 0
    assert all(found[table] > 0 for table in TABLES)
    assert sum(found.values()) == whole
