"""How many forwards, and all-to-alls, a prompt in chunks and its decoding take.

Whole prompt first: 1 + D forwards. Chunks of c tokens apart from decode steps: n + D with
n = ⌈P/c⌉. Chunks that carry decode tokens along: max(n, D). Bytes are the same in all three.
"""

import math
from dataclasses import dataclass

from engine.simulation.cost.shape import ModelShape


@dataclass(frozen=True, slots=True)
class Forwards:
    """Forward passes of one prompt of P tokens and D decode steps.

    Attributes:
        chunks: n. decode_steps: D.
    """

    chunks: int
    decode_steps: int

    @classmethod
    def of(cls, prompt_tokens: int, decode_steps: int, chunk_size: int) -> "Forwards":
        """Count the chunks of a prompt."""
        return cls(math.ceil(prompt_tokens / chunk_size), decode_steps)

    @property
    def whole(self) -> int:
        """The prompt in one forward, then the decode steps."""
        return 1 + self.decode_steps

    @property
    def separate(self) -> int:
        """Chunks and decode steps, each a forward of its own."""
        return self.chunks + self.decode_steps

    @property
    def mixed(self) -> int:
        """Decode tokens ride along with the chunks."""
        return max(self.chunks, self.decode_steps)

    @property
    def saving(self) -> float:
        """Of `mixed` against `separate`: min(n, D)/(n + D), at most one half."""
        return 1.0 - self.mixed / self.separate


def all_to_alls(forwards: int, shape: ModelShape) -> int:
    """Dispatch and combine of every MoE layer."""
    return 2 * shape.moe_layers * forwards
