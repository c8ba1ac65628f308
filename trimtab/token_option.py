"""`--token`, or the variable that stands for it, and what to say when it is not accepted."""

from collections.abc import Callable
from typing import TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., object])


def token_option(variable: str, words: str) -> Callable[[Command], Command]:
    """`--token`, given to the command as `token`; the help names the variable."""
    return click.option("--token", envvar=variable, show_envvar=True, help=words)


def token_hint(token: str | None, variable: str, role: str, status: int) -> str:
    """What to do about a 401 or 403: with no token, an unknown one, one of another role."""
    if token is None:
        return f"it wants a token of role {role}: pass --token or set {variable}"
    given = f"the token given by --token or {variable}"
    if status == 403:
        return f"{given} lacks the role {role}"
    return f"it does not know {given}; it wants one of role {role}"
