"""Whether all that a frame's header says can be stored and shown: numbers, text, depth. Pure.

A database column holds 64 bits and no NUL, JSON holds no NaN, and a browser counts exactly up to
2^53. A frame beyond that would fail at its commit, again at every retry, and take along the frames
of other engines that wait in the same group: it is refused before it is queued.
"""

import math
from collections.abc import Iterator

from pydantic import BaseModel

from contract.frame import FrameHeader

LARGEST = 2**53 - 1
DEEPEST = 16


def unstorable(header: FrameHeader) -> str:
    """The first field that cannot be stored and why, as a sentence; empty when all can."""
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
