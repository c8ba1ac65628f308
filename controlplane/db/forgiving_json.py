"""JSON of which a damaged value costs what it says, and not the rest of the answer."""

import logging
from collections.abc import Callable
from typing import Any

from sqlalchemy import JSON, Dialect
from sqlalchemy.types import TypeDecorator

logger = logging.getLogger(__name__)


class ForgivingJson(TypeDecorator[dict[str, Any]]):
    """An object for people to read; where it is damaged it is empty, which is logged.

    Not for what is decided on: there a damaged value has to fail.
    """

    impl = JSON
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """What makes a value of what the database gives."""
        read = super().result_processor(dialect, coltype)

        def forgiving(stored: Any) -> dict[str, Any]:
            try:
                value = stored if read is None else read(stored)
            except (ValueError, TypeError):
                logger.exception("stored JSON is damaged; trimtab db check names it")
                value = None
            return value if isinstance(value, dict) else {}

        return forgiving
