"""Text to token ids and back, through the checkpoint's tokenizer.json."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer as HubTokenizer

from engine.errors import CheckpointError

_FILE = "tokenizer.json"
_REPLACEMENT = "\ufffd"


class Tokenizer:
    """A checkpoint's tokenizer.

    Args:
        checkpoint: folder with a tokenizer.json.

    Raises:
        CheckpointError: the file is absent or not a tokenizer.
    """

    def __init__(self, checkpoint: Path) -> None:
        path = checkpoint / _FILE
        if not path.is_file():
            raise CheckpointError(f"{path} is absent", field=_FILE, value=str(path))
        try:
            self._tokenizer = HubTokenizer.from_file(str(path))
        except Exception as error:  # noqa: BLE001 -- the library raises bare Exception
            raise CheckpointError(
                f"{path} is not a tokenizer: {error}", field=_FILE, value=str(path)
            ) from None

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a text, without specials."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of token ids; specials vanish, broken UTF-8 becomes U+FFFD."""
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=True)
        return text

    def stream(self) -> "TextStream":
        """A decoder of one sequence's tokens as they come."""
        return TextStream(self)


class TextStream:
    """Gives text once it is whole: a character of several tokens comes with its last one.

    Args:
        tokenizer: of the sequence.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._pending: list[int] = []

    def push(self, token_id: int) -> str:
        """The text that this token completes, often one character, sometimes none yet."""
        self._pending.append(token_id)
        text = self._tokenizer.decode(self._pending)
        # A character has at most four bytes: past that, what is broken stays broken.
        if text.endswith(_REPLACEMENT) and len(self._pending) < 4:
            return ""
        self._pending.clear()
        return text

    def flush(self) -> str:
        """What is left at the end of the sequence."""
        text = self._tokenizer.decode(self._pending)
        self._pending.clear()
        return text
