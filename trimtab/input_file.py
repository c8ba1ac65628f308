"""A text file that a command was given by name."""

from pathlib import Path

from trimtab.errors import InputError


def read_input(path: Path, what: str) -> str:
    """The text of `path`; `what` says in a sentence what it should be, e.g. "policy file".

    Raises:
        InputError: it cannot be read, or is not UTF-8 text.
    """
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{what} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{what} {path} is not UTF-8 text: byte {error.start + 1} is none of it"
        ) from None
