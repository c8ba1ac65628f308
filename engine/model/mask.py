"""Who sees whom: causal, within a sliding window, within a chunk."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Visibility:
    """A layer's rule.

    Attributes:
        window: a token sees this many positions back, itself included; None for all.
        chunk: a token sees only its own chunk of this many positions; None for all.
    """

    window: int | None = None
    chunk: int | None = None

    def is_plain(self, context: int) -> bool:
        """Whether, up to `context` tokens, the rule is just causal."""
        return (self.window is None or context <= self.window) and (
            self.chunk is None or context <= self.chunk
        )

    def mask(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Bool, True where seen; int64 positions broadcast ([S, 1] and [1, C] give [S, C])."""
        seen = keys <= queries
        if self.window is not None:
            seen = seen & (keys > queries - self.window)
        if self.chunk is not None:
            seen = seen & (keys // self.chunk == queries // self.chunk)
        return seen
