"""Generated files that are committed: written, or compared with what is there."""

from pathlib import Path

import click


def write_files(files: dict[str, str], folder: Path) -> None:
    """Write content by file name; says what changed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in sorted(files.items()):
        path = folder / name
        changed = not path.exists() or path.read_text() != content
        if changed:
            path.write_text(content)
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
