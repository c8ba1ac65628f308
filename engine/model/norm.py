"""RMS normalisation."""

import torch
from torch import Tensor
from torch.nn import functional


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """X [..., d] ÷ its root mean square over d, times weight [d]; the mean is taken in FP32."""
    if x.dtype is torch.float32:
        return functional.rms_norm(x, (x.shape[-1],), weight, eps)
    normed = functional.rms_norm(x.float(), (x.shape[-1],), None, eps).to(x.dtype)
    return normed if weight is None else normed * weight
