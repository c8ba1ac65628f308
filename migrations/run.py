"""Upgrade, downgrade and compare a database's schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from controlplane.db.database import Database
from controlplane.db.models import load_models
from migrations.naming import is_ours

HEAD = "head"
BASE = "base"


def upgrade(database: Database, to: str = HEAD) -> None:
    """Bring the schema up to a revision, in one transaction."""
    with _config(database) as config:
        command.upgrade(config, to)


def downgrade(database: Database, to: str = BASE) -> None:
    """Take the schema down to a revision. Data of dropped tables is lost."""
    with _config(database) as config:
        command.downgrade(config, to)


def current(database: Database) -> str | None:
    """The revision that the database is at; None when it is empty."""
    with database.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def revisions() -> list[str]:
    """Every revision of this program, oldest first."""
    scripts = ScriptDirectory(str(Path(__file__).parent))
    return [script.revision for script in scripts.walk_revisions()][::-1]


def newest() -> str:
    """The newest revision of this program."""
    head = ScriptDirectory(str(Path(__file__).parent)).get_current_head()
    if head is None:
        raise RuntimeError("migrations/versions holds no revision")
    return head


def differences(database: Database) -> list[Any]:
    """What separates the database's schema from the models; empty when nothing does."""
    with database.engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "include_name": is_ours}
        )
        return list(compare_metadata(context, load_models()))


@contextmanager
def _config(database: Database) -> Iterator[Config]:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    with database.engine.begin() as connection:
        config.attributes["connection"] = connection
        yield config
