"""Which tables of a database belong to the models."""

import re
from collections.abc import MutableMapping
from typing import Literal

_PARTITION = re.compile(r"_p\d+_\d+$")


def is_ours(
    name: str | None,
    kind: Literal[
        "schema", "table", "column", "index", "unique_constraint", "foreign_key_constraint"
    ],
    _parents: MutableMapping[
        Literal["schema_name", "table_name", "schema_qualified_table_name"], str | None
    ],
) -> bool:
    """False for the partitions that scheduled jobs make and drop (`load_chunk_p0_1764374400`)."""
    return not (kind == "table" and name is not None and _PARTITION.search(name))
