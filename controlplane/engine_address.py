"""What an engine may be called, where it may be, and what may be sent to it as its token.

An address that the HTTP client cannot even parse would fail anew at every tick.
"""

from typing import Annotated

import httpx
from pydantic import AfterValidator, Field, SecretStr

from contract.written import HTTP_URL, Written

MAX_URL_CHARACTERS = 512
_HIGHEST_PORT = 65535


def _parsed(text: str) -> str:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError, ValueError) as error:
        raise ValueError(f"{text!r} is no address of an engine: {error}") from None
    if not url.host or not 0 < (url.port or 1) <= _HIGHEST_PORT:
        raise ValueError(f"{text!r} is no address of an engine: host or port is missing or wrong")
    return text


def _sendable(token: SecretStr) -> SecretStr:
    text = token.get_secret_value()
    if not all("!" <= character <= "~" for character in text):
        raise ValueError("a token has visible ASCII characters only: it is sent in a header")
    return token


EngineId = Annotated[
    str,
    Field(min_length=1, max_length=128),
    Written(
        r"^[A-Za-z0-9_][A-Za-z0-9._:-]*$",
        "have only A-Z a-z 0-9 . _ : - with a letter, a digit or _ first",
    ),
]
EngineUrl = Annotated[
    str,
    Field(max_length=MAX_URL_CHARACTERS),
    HTTP_URL,
    AfterValidator(_parsed),
]
EngineToken = Annotated[SecretStr, Field(max_length=512), AfterValidator(_sendable)]
