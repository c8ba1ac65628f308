"""RMS normalisation."""

import math

import torch
from torch import Tensor
from torch.nn import functional


class RMSNorm:
    """X [..., d] ÷ its root mean square over d, times a weight; the mean is taken in FP32.

    In FP32 on the CPU it is x ÷ √(‖x‖² + d·eps) · √d·weight: half the operations, and at decode an
    operation costs more than its arithmetic.

    Args:
        weight: [..., d]; leading dimensions (heads) broadcast. None for no weight.
        width: d.
        eps: added to the mean square.
        device: of x.
    """

    def __init__(
        self, weight: Tensor | None, *, width: int, eps: float, device: torch.device
    ) -> None:
        self._weight = weight
        self._eps = eps
        root = math.sqrt(width)
        self._gain = torch.tensor(root, device=device) if weight is None else weight.float() * root
        self._floor = torch.tensor(math.sqrt(width * eps), device=device)

    def __call__(self, x: Tensor) -> Tensor:
        """The normalised x."""
        if _is_plain(x):
            return torch.div(x, self._length(x)).mul_(self._gain)
        normed = functional.rms_norm(x.float(), x.shape[-1:], None, self._eps).to(x.dtype)
        return normed if self._weight is None else normed * self._weight

    def apply_(self, x: Tensor) -> None:
        """Normalise x in place."""
        if _is_plain(x):
            x.div_(self._length(x)).mul_(self._gain)
        else:
            x.copy_(self(x))

    def _length(self, x: Tensor) -> Tensor:
        """√(‖x‖² + d·eps), [..., 1]."""
        return torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self._floor)


def _is_plain(x: Tensor) -> bool:
    return x.dtype is torch.float32 and x.is_cpu
