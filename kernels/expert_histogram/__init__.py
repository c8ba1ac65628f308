"""Per-step expert histogram into one layer of [B, L, E]."""

from torch import Tensor

from kernels.backend import uses_triton
from kernels.expert_histogram import reference

__all__ = ["expert_histogram"]


def expert_histogram(expert_ids: Tensor, bucket_ids: Tensor, counts: Tensor) -> None:
    """Add to `counts[b, e]` the assignments of tokens of bucket b to expert e, in place.

    Args:
        expert_ids: int64 [T, k]; a negative id counts nowhere.
        bucket_ids: int64 [T], each in 0..B-1.
        counts: int64 [B, E], any strides: one layer of a [B, L, E] tensor.
    """
    if uses_triton(counts.device):
        from kernels.expert_histogram import triton_kernel

        triton_kernel.expert_histogram(expert_ids, bucket_ids, counts)
    else:
        reference.expert_histogram(expert_ids, bucket_ids, counts)
