"""Text to token ids and back, as the server needs it; `engine.model.tokenizer` satisfies it."""

from collections.abc import Sequence
from typing import Protocol

REPLACEMENT = "\ufffd"
"""What an incomplete or invalid UTF-8 sequence decodes to."""


class Tokenizer(Protocol):
    """Both directions; special tokens decode to nothing."""

    def encode(self, text: str) -> Sequence[int]:
        """Token ids of a text."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids; bytes that are not UTF-8 become U+FFFD."""
        ...


class ByteTokenizer:
    """One token a byte, ids 0 … 255; higher ids are special. Needs no file."""

    def encode(self, text: str) -> Sequence[int]:
        """The UTF-8 bytes."""
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the bytes."""
        return bytes(token for token in ids if token < 256).decode(errors="replace")
