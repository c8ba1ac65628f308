"""What an access token, or whoever opens a login link, may be called; the same in both planes.

A name stands in URLs, logs and every database: no slash, no space, no control character.
"""

import re

ACCESS_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._\-]{0,127}$"
ACCESS_NAME_BOUND = "1 to 128 of A-Z a-z 0-9 . _ - with a letter or digit first"

_NAME = re.compile(ACCESS_NAME_PATTERN)


def fault_of_name(name: str) -> str | None:
    """One sentence on what is wrong with a name, None if it may be used."""
    if _NAME.fullmatch(name):
        return None
    shown = repr(name) if len(name) <= 128 else f"of {len(name)} characters"
    return f"name {shown} is not usable: a name has {ACCESS_NAME_BOUND}"
