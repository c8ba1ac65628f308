"""Options that control-plane commands share, and their exit on bad input."""

import getpass
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click
from alembic.util import CommandError
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from controlplane.db.database import Database, open_database
from controlplane.errors import TrimtabError
from controlplane.settings import Settings, load_settings
from trimtab.errors import InputError

Command = TypeVar("Command", bound=Callable[..., object])


def config_option(command: Command) -> Command:
    """`--config FILE`."""
    return click.option(
        "--config", type=click.Path(path_type=Path, dir_okay=False), default=None,
        help="Settings file; TRIMTAB_* variables win over it.",
    )(command)  # fmt: skip


def at_the_shell() -> str:
    """Who runs this command, for the audit log: `cli:USER`."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError):  # a container's user without a name
        return "cli"


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """Turn an error of ours, or a database that cannot be used, into one sentence and exit 2."""
    try:
        yield
    except TrimtabError as error:
        raise InputError(_with_hint(error.detail)) from None
    except DBAPIError as error:
        said = _with_hint(_first_line(error.orig))
        raise InputError(f"the database cannot be used: {said}") from None
    except (SQLAlchemyError, CommandError, OSError) as error:
        raise InputError(f"the database cannot be used: {_first_line(error)}") from None


def _with_hint(said: str) -> str:
    """What to do where tables are missing: another database was meant, or this one is new."""
    if "no such table" in said or ("relation" in said and "does not exist" in said):
        return f"{said}; is it the right one (--config), and made (trimtab db upgrade)?"
    return said


def _first_line(error: object) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0]


@contextmanager
def opened_database(
    config: Path | None, *, create: bool = False
) -> Iterator[tuple[Settings, Database]]:
    """The settings and their database, closed at the end; `create`: an SQLite file may be made."""
    with one_sentence_errors():
        settings = load_settings(config)
        database = open_database(settings.database_url, create=create)
        try:
            yield settings, database
        finally:
            database.close()
