"""Text to token ids and back. The server knows text; the core knows ids only."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from engine.errors import CheckpointError

_FILE = "tokenizer.json"
REPLACEMENT = "\ufffd"
"""What an incomplete or invalid UTF-8 sequence decodes to."""


class Tokenizer(Protocol):
    """Both directions; special tokens decode to nothing."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids; bytes that are not UTF-8 become U+FFFD."""
        ...


class ByteTokenizer:
    """One token a byte, ids 0 … 255; higher ids are special. Needs no file."""

    def encode(self, text: str) -> list[int]:
        """The UTF-8 bytes."""
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the bytes."""
        return bytes(token for token in ids if token < 256).decode(errors="replace")


class FileTokenizer:
    """A checkpoint's `tokenizer.json`."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer as Loaded

        try:
            self._loaded = Loaded.from_file(str(path))
        except Exception as error:
            raise CheckpointError(
                f"{path} is not a tokenizer: {error}", field=_FILE, value=str(path)
            ) from error

    def encode(self, text: str) -> list[int]:
        """Token ids, without special tokens."""
        return list(self._loaded.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Text, without special tokens."""
        return str(self._loaded.decode(list(ids), skip_special_tokens=True))


def load_tokenizer(checkpoint: Path) -> Tokenizer:
    """The tokenizer of a checkpoint folder."""
    path = checkpoint / _FILE
    if not path.exists():
        raise CheckpointError(f"{checkpoint} has no {_FILE}", field=_FILE, value=str(checkpoint))
    return FileTokenizer(path)
