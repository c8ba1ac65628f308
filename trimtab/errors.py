"""Errors of the command line."""

import click


class InputError(click.ClickException):
    """Bad input: one sentence on stderr, exit status 2."""

    exit_code = 2
