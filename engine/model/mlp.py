"""The dense feed-forward block: SwiGLU."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class DenseMLP:
    """Weights of one dense block: gate_up [2 · inner, d], down [d, inner]."""

    gate_up: Tensor
    down: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Map x [T, d] to [T, d]."""
        gate, up = functional.linear(x, self.gate_up).chunk(2, dim=-1)
        return functional.linear(functional.silu(gate) * up, self.down)
