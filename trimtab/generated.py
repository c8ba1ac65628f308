"""Generated files that are committed: written, or compared with what is there."""

from pathlib import Path

import click

from trimtab.errors import InputError
from trimtab.output_file import check_output, write_output


def write_files(files: dict[str, str], folder: Path) -> None:
    """Write content by file name; says what changed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder} cannot be made: {error.strerror}") from None
    for name, content in sorted(files.items()):
        path = folder / name
        check_output(path, "--out", force=True)
        changed = not path.exists() or path.read_text() != content
        if changed:
            write_output(path, content, "--out", force=True)
        click.echo(f"{'wrote' if changed else 'same '} {path}")


def check_files(files: dict[str, str], folder: Path, command: str) -> None:
    """Exit 1 and name the files when the folder differs from `files`."""
    kept = {path.name for path in folder.glob("*") if path.is_file()} if folder.is_dir() else set()
    stale = sorted(
        name for name, content in files.items()
        if name not in kept or (folder / name).read_text() != content
    )  # fmt: skip
    extra = sorted(kept - set(files))
    if stale or extra:
        named = ", ".join(stale + [f"{name} (not generated any more)" for name in extra])
        click.echo(f"{folder} is out of date: {named}. Run `{command}`.", err=True)
        raise SystemExit(1)
    click.echo(f"{folder} is up to date: {len(files)} files")
