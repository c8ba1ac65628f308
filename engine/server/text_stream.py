"""Output text from output tokens, piece by piece. Pure.

Two things hold text back: a character whose bytes are not all there, and the beginning of a stop
string. What was sent is never taken back.
"""

from collections.abc import Sequence

from engine.server.tokenizer import REPLACEMENT, Tokenizer

_MAX_HELD_TOKENS = 4
"""A UTF-8 character has at most four bytes: what is still broken then is broken for good."""


class TextStream:
    """One completion's text: feed token ids, get text that is safe to send.

    `is_stopped` turns true when a stop string is complete; the text ends just before it.
    Decoding looks only at the tokens since the last complete character (and one before, for
    tokenizers that join tokens with spaces), so a token costs the same at any length.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._stops = tuple(stops)
        self._context: list[int] = []
        self._pending: list[int] = []
        self._unsent = ""
        self.is_stopped = False

    def feed(self, token_id: int) -> str:
        """Text that became safe to send with this token."""
        if self.is_stopped:
            return ""
        self._pending.append(token_id)
        while (text := self._decoded(self._pending)).endswith(REPLACEMENT):
            if self._held() < _MAX_HELD_TOKENS:
                return self._send(keep=self._stop_prefix())
            self._accept(self._decoded(self._pending[:1]), self._pending[1:])
        self._accept(text, [])
        return self._send(keep=self._stop_prefix())

    def finish(self) -> str:
        """The rest, when no more tokens come."""
        if self.is_stopped:
            return ""
        self._accept(self._decoded(self._pending), [])
        return self._send(keep=0)

    def _decoded(self, tokens: list[int]) -> str:
        before = self._tokenizer.decode(self._context)
        return self._tokenizer.decode(self._context + tokens)[len(before) :]

    def _held(self) -> int:
        """Pending tokens that have bytes: special tokens between two bytes part no character."""
        return sum(self._tokenizer.decode([token]) != "" for token in self._pending)

    def _accept(self, text: str, rest: list[int]) -> None:
        """Take `text` as final; `rest`, the tokens after it, may still begin a character."""
        if self._pending:
            broken = text.endswith(REPLACEMENT)
            self._context = [] if broken else self._pending[: len(self._pending) - len(rest)][-1:]
            self._pending = rest
        self._unsent += text
        found = [at for stop in self._stops if (at := self._unsent.find(stop)) >= 0]
        if found:
            self._unsent = self._unsent[: min(found)]
            self.is_stopped = True

    def _stop_prefix(self) -> int:
        if self.is_stopped:
            return 0
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for size in range(min(longest, len(self._unsent)), 0, -1):
            tail = self._unsent[-size:]
            if any(stop.startswith(tail) for stop in self._stops):
                return size
        return 0

    def _send(self, keep: int) -> str:
        cut = len(self._unsent) - keep
        text, self._unsent = self._unsent[:cut], self._unsent[cut:]
        return text
