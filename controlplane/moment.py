"""Moments that people and programs send: unix seconds, or ISO 8601 with an offset. Pure."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema


def unix_seconds(said: Any) -> Any:
    """The unix seconds of a text; anything else as it is.

    Raises:
        ValueError: the text is no moment, or has no offset: whose clock is meant, nobody knows.
    """
    if not isinstance(said, str):
        return said
    try:
        return float(said)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(said)
    except ValueError:
        raise ValueError(
            f"{said!r} is neither unix seconds nor ISO 8601 such as 2026-11-29T12:00:00Z "
            "(in an address the + of an offset is written %2B)"
        ) from None
    if found.tzinfo is None:
        raise ValueError(
            f"{said!r} does not say whose clock it is: add Z for UTC, or an offset such as +02:00 "
            "(in an address %2B02:00)"
        )
    return found.timestamp()


Moment = Annotated[
    float,
    BeforeValidator(unix_seconds),
    Field(allow_inf_nan=False),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "format": "date-time"}]}),
]
"""Unix seconds; read from a number, or from ISO 8601 with an offset."""
