"""What a refused setting says, the same in both planes: one sentence with its name and value."""

from pydantic import ValidationError

_VALUE_IS_SHOWN = ("_parsing", "literal_error", "than", "than_equal")
"""Ends of pydantic's error types whose input is a number or a choice: never a secret or a URL."""


def one_sentence(error: ValidationError) -> tuple[str, str]:
    """The dotted name of the first setting that is wrong, and what to say about it."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if not where:
        return "settings", str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        return where, f"setting {where} does not exist"
    message = str(first["msg"]).removeprefix("Value error, ").replace("Input should", "it should")
    if first["type"].endswith(_VALUE_IS_SHOWN):
        message += f", not {first['input']!r}"
    return where, f"setting {where}: {message}"
