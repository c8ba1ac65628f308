"""What a refused setting says, the same in both planes: one sentence with its name and value."""

import re
from typing import Any

from pydantic import BaseModel, ValidationError

from contract.settings_names import nearest, settings_at

_VALUE_IS_SHOWN = ("_parsing", "literal_error", "than", "than_equal")
"""Ends of pydantic's error types whose input is a number or a choice: never a secret or a URL."""

_IT = re.compile(r"^\w+ should\b")
"""pydantic names the kind of a value (`String should`); here the setting is named."""


class SettingsError(Exception):
    """A setting, a variable or the file is refused; each plane says it as an error of its own.

    Attributes:
        detail: one sentence.
        field: dotted name of the setting, or the variable.
        bound: what is known or allowed, where a list helps.
    """

    def __init__(self, detail: str, *, field: str, bound: Any = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.bound = bound


def refused(error: ValidationError, model: type[BaseModel]) -> SettingsError:
    """The first setting that is wrong, and what to say about it."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = _IT.sub("it should", str(first["msg"]).removeprefix("Value error, "))
    if not where:
        return SettingsError(message, field="settings")
    if first["type"] == "extra_forbidden":
        return _unknown(where, first["loc"], model)
    if first["type"].endswith(_VALUE_IS_SHOWN):
        message += f", not {first['input']!r}"
    return SettingsError(f"setting {where}: {message}", field=where)


def _unknown(where: str, location: tuple[int | str, ...], model: type[BaseModel]) -> SettingsError:
    known = settings_at(model, location[:-1])
    return SettingsError(
        f"setting {where} does not exist{did_you_mean(str(location[-1]), known)}",
        field=where, bound=sorted(known),
    )  # fmt: skip


def did_you_mean(name: str, known: tuple[str, ...]) -> str:
    """The end of a sentence about a name that nobody knows: the nearest one, if any is near."""
    near = nearest(name, known)
    return "" if near is None else f"; did you mean {near}?"
