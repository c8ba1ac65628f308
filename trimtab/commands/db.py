"""`trimtab db`: the database's schema."""

from pathlib import Path

import click

from migrations import run
from trimtab.commands.options import config_option, opened_database


@click.group(epilog="Example: trimtab db upgrade")
def command() -> None:
    """Upgrade, check and inspect the control plane's database."""


@command.command(epilog="Example: trimtab db upgrade")
@config_option
@click.option("--to", default=run.HEAD, show_default=True, help="Revision to go to.")
def upgrade(config: Path | None, to: str) -> None:
    """Bring the schema up to the newest revision; data stays."""
    with opened_database(config) as (_, database):
        before = run.current(database)
        run.upgrade(database, to)
        click.echo(f"{before or 'empty'} -> {run.current(database)}")
