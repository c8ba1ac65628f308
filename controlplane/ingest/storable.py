"""Whether all that a frame's header says can be stored and shown: numbers, text, depth. Pure.

A database column holds 64 bits and no NUL, JSON holds no NaN, and a browser counts exactly up to
2^53. A frame beyond that would fail at its commit, again at every retry, and take along the frames
of other engines that wait in the same group: it is refused before it is queued.
"""

import math
from collections.abc import Collection, Iterator

from pydantic import BaseModel

from contract.frame import FrameHeader

LARGEST = 2**53 - 1
DEEPEST = 16


def unstorable(header: FrameHeader) -> str:
    """The first field that cannot be stored and why, as a sentence; empty when all can."""
    return "" if _all_storable(header, 0) else _first_unstorable(header)


def _all_storable(value: object, depth: int) -> bool:
    """The same question as a yes or no, without names: nearly every frame ends here."""
    if isinstance(value, int):
        return -LARGEST <= value <= LARGEST
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return "\0" not in value and (value.isascii() or _is_unicode(value))
    if isinstance(value, BaseModel):
        extra = value.__pydantic_extra__
        return _all_inside(value.__dict__.values(), depth) and (
            not extra or _all_inside((*extra, *extra.values()), depth)
        )
    if isinstance(value, dict):
        return _all_inside((*value, *value.values()), depth)
    if isinstance(value, list | tuple):
        return _all_inside(value, depth)
    return not _wrong(value)


def _all_inside(parts: Collection[object], depth: int) -> bool:
    return not parts or (depth < DEEPEST and all(_all_storable(part, depth + 1) for part in parts))


def _first_unstorable(header: FrameHeader) -> str:
    waiting: list[tuple[str, object, int]] = [("", header, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        wrong = _wrong(value)
        if wrong:
            return f"header field {name or 'name'} {wrong}"
        parts = list(_parts(name, value))
        if parts and depth == DEEPEST:
            return f"header field {name} is nested deeper than {DEEPEST} levels"
        waiting += [(inner, part, depth + 1) for inner, part in parts]
    return ""


def _wrong(value: object) -> str:
    match value:
        case bool():
            return ""
        case int() if not -LARGEST <= value <= LARGEST:
            return f"is beyond ±{LARGEST}"
        case float() if not math.isfinite(value):
            return f"is {value}: a finite number is needed"
        case str() if "\0" in value:
            return "holds the character NUL"
        case str() if not value.isascii() and not _is_unicode(value):
            return "is not valid Unicode"
        case _:
            return ""


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _parts(name: str, value: object) -> Iterator[tuple[str, object]]:
    """What a value is made of; names of a mapping are looked at as well."""
    match value:
        case BaseModel():
            yield from ((_join(name, key), part) for key, part in value)
        case dict():
            for key, part in value.items():
                yield name, key
                yield _join(name, str(key)[:40]), part
        case list() | tuple():
            yield from ((name, part) for part in value)
        case _:
            return


def _join(outer: str, inner: str) -> str:
    return f"{outer}.{inner}" if outer else inner
