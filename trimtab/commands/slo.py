"""`trimtab slo`: check OpenSLO files, and write the objectives that ship."""

from pathlib import Path

import click

from controlplane.errors import InvalidInputError
from controlplane.slo.openslo import read_openslo
from controlplane.slo.openslo_export import write_openslo
from controlplane.slo.settings import SloSettings
from trimtab.errors import InputError
from trimtab.input_file import read_input


@click.group()
def command() -> None:
    """Check OpenSLO v1 files, and write the objectives that ship."""


@command.command(epilog="Example: trimtab slo validate objectives.yaml")
@click.argument("file", type=click.Path(path_type=Path))
def validate(file: Path) -> None:
    """Check FILE and say which objectives the governor would take from it."""
    text = read_input(file, "OpenSLO file")
    try:
        found = read_openslo(text)
    except InvalidInputError as error:
        raise InputError(f"{file}: {error.detail}") from None
    click.echo(f"{file}: {len(found.documents)} valid OpenSLO documents")
    for document in found.documents:
        click.echo(f"  {document.kind:<24} {document.metadata.name}")
    taken = ", ".join(found.governed) or "none"
    click.echo(f"objectives that the governor takes from it: {taken}")


@command.command(epilog="Example: trimtab slo export > objectives.yaml")
def export() -> None:
    """Print the default objectives as OpenSLO v1 YAML."""
    click.echo(write_openslo(SloSettings()), nl=False)
