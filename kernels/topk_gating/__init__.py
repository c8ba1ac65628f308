"""Top-k gating with a selection-only bias and groups."""

from torch import Tensor

from kernels.backend import uses_triton
from kernels.topk_gating import reference

__all__ = ["topk_gating"]


def topk_gating(
    logits: Tensor,
    bias: Tensor | None,
    top_k: int,
    *,
    sigmoid: bool,
    renormalise: bool,
    scale: float = 1.0,
    num_groups: int = 1,
    groups_kept: int = 1,
) -> tuple[Tensor, Tensor]:
    """Expert ids int64 [T, k] by biased score, and gates FP32 [T, k] by unbiased score.

    Args:
        logits: FP32 [T, E].
        bias: FP32 [E], moves the choice only; None is zero.
        top_k: k.
        sigmoid: independent sigmoid scores; otherwise a softmax over all experts.
        renormalise: gates are divided by their sum.
        scale: factor on the gates.
        num_groups: equal runs of expert ids.
        groups_kept: runs that a token may use.
    """
    if uses_triton(logits.device):
        from kernels.topk_gating import triton_kernel

        chosen: tuple[Tensor, Tensor] = triton_kernel.topk_gating(
            logits, bias, top_k, sigmoid=sigmoid, renormalise=renormalise, scale=scale,
            num_groups=num_groups, groups_kept=groups_kept,
        )  # fmt: skip
        return chosen
    return reference.topk_gating(
        logits, bias, top_k, sigmoid=sigmoid, renormalise=renormalise, scale=scale,
        num_groups=num_groups, groups_kept=groups_kept,
    )  # fmt: skip
