"""A frame's header from its JSON: the header itself, and the list of its arrays (`_arrays`). Pure.

An encoder writes the list last, and an engine writes the same one second after second. So it is cut
off and looked up as text, and what is left to parse is half as long. Where it is not the last field
the whole is parsed.
"""

import json
from functools import lru_cache

from pydantic import ValidationError

from contract.frame import FrameHeader
from contract.frame_arrays import FrameError, Listing, array_list

_ARRAYS = "_arrays"
_LAST_FIELD = f',"{_ARRAYS}":'.encode()
"""Never part of a string, where quotes are escaped; of a nested object, the rest is no JSON."""
_KEPT_LISTS = 64
_LONGEST_KEPT = 8 * 1024


def parse_header(text: bytes) -> tuple[FrameHeader, Listing]:
    """The header, and the arrays that it lists.

    Raises:
        FrameError: it is no header, or its list is none.
    """
    fields, found, rest = text.rpartition(_LAST_FIELD)
    listed = _known(rest) if found and len(rest) <= _LONGEST_KEPT else None
    header = _header(text if listed is None else fields + b"}")
    said = (header.model_extra or {}).pop(_ARRAYS, None)
    return header, array_list(said) if listed is None else listed


def _header(text: bytes) -> FrameHeader:
    try:
        return FrameHeader.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = f"header field {where}" if where else "header"
        raise FrameError("header", f"{said}: {first['msg']}") from None


@lru_cache(_KEPT_LISTS)
def _known(rest: bytes) -> Listing | None:
    """The list, of what follows its name; None where that is not the list and the object's end."""
    listed = rest.rstrip()
    if not listed.endswith(b"}"):
        return None
    try:
        return array_list(json.loads(listed[:-1]))
    except (ValueError, RecursionError):  # FrameError is a ValueError: the whole says what is wrong
        return None
