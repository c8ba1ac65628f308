"""The names that settings have, as variables and as tables; the nearest to one that is misspelt.

Pure: a model and a name in, names out.
"""

import difflib
from collections.abc import Iterable, Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel

NESTING = "__"
"""Between a table and its setting in a variable: `TRIMTAB_HISTORY__RING_FRAMES`."""


def variables(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, bool]]:
    """Every variable of a model, and whether names below it are values of a collection."""
    for name, field in model.model_fields.items():
        variable = prefix + name.upper()
        table = _table(field.annotation)
        yield variable, table is None and get_origin(field.annotation) is not None
        if table is not None:
            yield from variables(table, variable + NESTING)


def is_variable(name: str, known: Iterable[tuple[str, bool]]) -> bool:
    """Whether a variable is a setting, or stands inside one that is a collection."""
    return any(
        name == variable or (is_collection and name.startswith(variable + NESTING))
        for variable, is_collection in known
    )


def settings_at(model: type[BaseModel], location: tuple[int | str, ...]) -> tuple[str, ...]:
    """Names of the settings in the table at `location`; none when no table is there."""
    found: type[BaseModel] = model
    for part in location:
        if isinstance(part, int):
            continue
        field = found.model_fields.get(part)
        table = None if field is None else _table(field.annotation) or _row(field.annotation)
        if table is None:
            return ()
        found = table
    return tuple(found.model_fields)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`; None when nothing is."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return close[0] if close else None


def _table(annotation: Any) -> type[BaseModel] | None:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if is_model else None


def _row(annotation: Any) -> type[BaseModel] | None:
    """The model of an array of tables, e.g. `tuple[EngineSettings, ...]`."""
    return next((table for each in get_args(annotation) if (table := _table(each))), None)
