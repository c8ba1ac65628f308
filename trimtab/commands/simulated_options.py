"""Options that the commands over the simulation share, and their exit on bad input."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

from engine.errors import EngineError
from engine.simulation.cost.presets import PRESETS
from engine.simulation.cost.topology import TOPOLOGIES
from trimtab.errors import InputError

Command = TypeVar("Command", bound=Callable[..., object])


def preset_option(default: str | None) -> Callable[[Command], Command]:
    """`--preset`, given to the command as `preset`; None takes the scenario's."""
    return click.option(
        "--preset", type=click.Choice(list(PRESETS)), default=default, show_default=bool(default),
        help="Model." if default else "Model.  [default: the scenario's]",
    )  # fmt: skip


def topology_option(default: str | None) -> Callable[[Command], Command]:
    """`--topology`, given to the command as `topology`; None takes the scenario's."""
    return click.option(
        "--topology", type=click.Choice(list(TOPOLOGIES)), default=default,
        show_default=bool(default),
        help="Cards and links." if default else "Cards and links.  [default: the scenario's]",
    )  # fmt: skip


@contextmanager
def one_sentence() -> Iterator[None]:
    """Turn what the simulation refuses into one sentence and exit 2."""
    try:
        yield
    except EngineError as error:
        raise InputError(error.detail) from None
