"""Which tables of a database belong to the models."""

import re

_PARTITION = re.compile(r"_p\d+_\d+$")


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """False for the partitions that scheduled jobs make and drop (`load_chunk_p0_1764374400`)."""
    return not (kind == "table" and name is not None and _PARTITION.search(name))
