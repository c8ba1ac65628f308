"""Files that a command writes: whole or not at all, and in the place of nothing unasked."""

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import click

from trimtab.errors import InputError

Command = TypeVar("Command", bound=Callable[..., object])


def force_option(command: Command) -> Command:
    """`--force`."""
    return click.option(
        "--force", is_flag=True, help="Replace a file that is there already."
    )(command)  # fmt: skip


def check_output(path: Path | None, option: str, *, force: bool = False) -> None:
    """Whether a file can be written there; ask before the work that fills it. None always can.

    `force` allows a regular file to be replaced: never a device, a pipe, or where a link leads.

    Raises:
        InputError: it cannot; the sentence names option and file.
    """
    if path is None:
        return
    if path == Path():
        raise InputError(f"{option} names no file")
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        _check_folder(path, option)
    except (OSError, ValueError) as error:
        raise _unwritable(path, option, error) from None
    else:
        _check_replaceable(path, mode, option, force=force)


@contextmanager
def output_file(path: Path, option: str, *, force: bool = False) -> Iterator[Path]:
    """A file beside `path` to write to; it takes the name `path` when the body ends well.

    Raises:
        InputError: `path` cannot be written; nothing was replaced, and nothing is left behind.
    """
    check_output(path, option, force=force)
    unfinished = path.with_name(f".{secrets.token_hex(8)}.unfinished{path.suffix}")
    try:
        yield unfinished
        check_output(path, option, force=force)
        unfinished.replace(path)
    except OSError as error:
        raise _unwritable(path, option, error) from None
    finally:
        if unfinished.exists():
            unfinished.unlink()


def write_output(path: Path | None, text: str, option: str, *, force: bool = False) -> None:
    """Write UTF-8 text; nothing for None.

    Raises:
        InputError: it cannot be written; nothing was replaced.
    """
    if path is not None:
        with output_file(path, option, force=force) as unfinished:
            unfinished.write_text(text, "utf-8")


def write_private(path: Path, text: str, option: str) -> None:
    """The same, readable by its owner alone from the first byte; a regular file is replaced."""
    with output_file(path, option, force=True) as unfinished:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)


def _check_folder(path: Path, option: str) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"{option} {path}: there is no folder {folder}; make it first")


def _check_replaceable(path: Path, mode: int, option: str, *, force: bool) -> None:
    if not stat.S_ISREG(mode):
        raise InputError(f"{option} {path} is no regular file, and is not replaced")
    if not force:
        raise InputError(f"{option} {path} is there already: choose another name, or --force")


def _unwritable(path: Path, option: str, error: Exception) -> InputError:
    said = error.strerror if isinstance(error, OSError) else error
    return InputError(f"{option} {path} cannot be written: {said or error}")
