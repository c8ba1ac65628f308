"""`trimtab token`: access tokens and login links, straight on the database."""

from datetime import UTC, datetime
from pathlib import Path

import click

from controlplane.audit import access_changes
from controlplane.auth.roles import Role
from controlplane.auth.tokens import TokenStore
from controlplane.clock import SystemClock
from controlplane.db.database import Database
from migrations.run import current, upgrade
from trimtab.commands.options import at_the_shell, config_option, opened_database
from trimtab.commands.serve import login_url
from trimtab.errors import InputError
from trimtab.output_file import check_output


@click.group(epilog="Example: trimtab token create --role engine --engine e0 --name e0-telemetry")
def command() -> None:
    """Create, list and revoke access tokens."""


@command.command(
    epilog="Examples: trimtab token create --role operator --name anna · "
    "trimtab token create --role inference --name bench --engine-tokens var/engine-tokens.json"
)
@config_option
@click.option("--name", required=True, help="Unique name, for the audit log.")
@click.option("--role", required=True, help=f"{', '.join(Role)}; of an engine also inference.")
@click.option(
    "--engine-tokens",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Make a token of an engine instead: its hash goes into this file.",
)
@click.option("--engine", default=None, help="Engine id; for role engine only.")
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True),
    default=None,
    help="Lifetime; without it the token lives until it is revoked.",
)
def create(
    config: Path | None, name: str, role: str, engine_tokens: Path | None, engine: str | None,
    days: float | None,
) -> None:  # fmt: skip
    """Create a token and print its secret, which is shown only now."""
    if engine_tokens is not None:
        click.echo(_engine_token(engine_tokens, name, role, engine, days))
        return
    if role == "inference":
        raise InputError(
            "inference is a role at an engine, not here: add --engine-tokens FILE, the engine's "
            "token file"
        )
    if role not in list(Role):
        raise InputError(f"role {role!r} is unknown; use one of {', '.join(Role)}")
    with opened_database(config, create=True) as (_, database):
        _make_tables(database)
        secret = _store(database).create(
            name, Role(role), by=at_the_shell(), engine_id=engine,
            lifetime_seconds=None if days is None else days * 86400,
        )  # fmt: skip
    click.echo(secret)


def _engine_token(
    file: Path, name: str, role: str, engine: str | None, days: float | None
) -> str:  # fmt: skip
    from engine.errors import EngineError
    from engine.server.tokens import Role as EngineRole
    from engine.server.tokens import create_token

    if engine is not None or days is not None:
        raise InputError("--engine and --days are for the control plane's tokens")
    if role not in list(EngineRole):
        raise InputError(f"role {role!r} is unknown; an engine has {', '.join(EngineRole)}")
    if file.is_symlink() or file.exists():
        check_output(file, "--engine-tokens", force=True)  # a token is added to it
    try:
        return create_token(file, name=name, role=EngineRole(role))
    except EngineError as error:
        raise InputError(error.detail) from None
    except OSError as error:
        raise InputError(f"token file {file} cannot be written: {error.strerror}") from None


@command.command(name="list", epilog="Example: trimtab token list")
@config_option
def list_all(config: Path | None) -> None:
    """List tokens, without their secrets."""
    with opened_database(config) as (_, database):
        for token in _store(database).all():
            state = "revoked" if token.revoked_at else _until(token.expires_at)
            bound = f" engine={token.engine_id}" if token.engine_id else ""
            click.echo(f"{token.name}\t{token.role}{bound}\t{state}")


@command.command(epilog="Example: trimtab token revoke anna")
@config_option
@click.argument("name")
def revoke(config: Path | None, name: str) -> None:
    """Make a token useless; running control planes notice within 15 s."""
    with opened_database(config) as (_, database):
        _store(database).revoke(name, by=at_the_shell())
    click.echo(f"revoked {name}")


@command.command(epilog="Example: trimtab token login")
@config_option
@click.option("--name", default="admin", show_default=True, help="Who logs in.")
def login(config: Path | None, name: str) -> None:
    """Print a URL that logs an administrator in once."""
    with opened_database(config, create=True) as (settings, database):
        _make_tables(database)
        click.echo(login_url(settings, database, name=name))


def _store(database: Database) -> TokenStore:
    return TokenStore(database, SystemClock(), access_changes.record)


def _make_tables(database: Database) -> None:
    """Tokens may be made before the first `serve`; a database in use is left as it is."""
    if current(database) is None:
        upgrade(database)


def _until(expires_at: float | None) -> str:
    if expires_at is None:
        return "valid"
    return f"valid until {datetime.fromtimestamp(expires_at, UTC):%Y-%m-%d %H:%M} UTC"
