"""`trimtab db`: the database's schema."""

from itertools import chain
from pathlib import Path

import click

from controlplane.db.database import Database
from controlplane.db.models import load_models
from controlplane.history import inspection
from migrations import run
from trimtab.commands.options import config_option, opened_database
from trimtab.errors import InputError


@click.group(epilog="Example: trimtab db upgrade")
def command() -> None:
    """Upgrade, check and inspect the control plane's database."""


@command.command(epilog="Example: trimtab db upgrade")
@config_option
@click.option("--to", default=run.HEAD, show_default=True, help="Revision to go to.")
def upgrade(config: Path | None, to: str) -> None:
    """Bring the schema up to the newest revision; data stays. It does not go back."""
    with opened_database(config, create=True) as (_, database):
        before = run.current(database)
        _check_target(before, to)
        run.upgrade(database, to)
        click.echo(f"{before or 'empty'} -> {run.current(database)}")


@command.command(epilog="Example: trimtab db check")
@config_option
def check(config: Path | None) -> None:
    """Check schema, file and every stored blob and text; exits 1 when something is wrong.

    What is damaged is named by table and key, a minute that cannot be sealed by engine and start;
    everything else stays readable.
    """
    with opened_database(config) as (_, database):
        said = _schema_errors(database)
        if not said:
            said += inspection.integrity_errors(database)
            with database.read() as session:
                said += [
                    f"{found.table} {found.key}: {found.reason}"
                    for found in chain(
                        inspection.damaged(session),
                        inspection.damaged_texts(session),
                        inspection.unsealable(session),
                    )
                ]
    for line in said:
        click.echo(line, err=True)
    if said:
        raise click.exceptions.Exit(1)
    click.echo("ok")


@command.command(epilog="Example: trimtab db stats")
@config_option
def stats(config: Path | None) -> None:
    """Rows and bytes by table, and frames known to be lost."""
    with opened_database(config) as (_, database):
        load_models()
        found = inspection.sizes(database)
        with database.read() as session:
            lost = inspection.missing_frames(session)
    width = max(len(size.table) for size in found)
    for size in found:
        click.echo(f"{size.table:<{width}} {size.rows:>12,} rows {size.size_bytes:>16,} bytes")
    click.echo(f"{'all':<{width}} {'':>17} {sum(size.size_bytes for size in found):>16,} bytes")
    click.echo(f"frames known to be lost: {lost}")


@command.command(epilog="Example: trimtab db vacuum")
@config_option
def vacuum(config: Path | None) -> None:
    """Give free pages back to the file system; writers wait meanwhile."""
    with opened_database(config) as (_, database):
        at = run.current(database)
        if at not in run.revisions():
            raise InputError(f"{_unknown(at)}; nothing was done")
        inspection.vacuum(database)
    click.echo("done")


def _check_target(at: str | None, to: str) -> None:
    known = run.revisions()
    wanted = known[-1] if to == run.HEAD else to
    if at is not None and at not in known:
        raise InputError(f"{_unknown(at)}; nothing was done")
    if wanted not in known:
        raise InputError(f"--to {to} is none of {', '.join(known)} and {run.HEAD}")
    if at is not None and known.index(wanted) < known.index(at):
        raise InputError(
            f"the schema is at {at}, and an upgrade does not go back to {wanted}; nothing was done"
        )


def _unknown(at: str | None) -> str:
    if at is None:
        return "this is no database of trimtab, or an empty one (trimtab db upgrade)"
    return (
        f"the schema is at {at}, which this program does not know (it knows up to {run.newest()}): "
        "use the program that made it"
    )


def _schema_errors(database: Database) -> list[str]:
    at, newest = run.current(database), run.newest()
    if at is not None and at not in run.revisions():
        return [_unknown(at)]
    if at != newest:
        return [f"schema is at {at or 'empty'}, this program needs {newest}: trimtab db upgrade"]
    return [f"schema differs from the models: {found}" for found in run.differences(database)]
