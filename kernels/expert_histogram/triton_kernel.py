"""Count assignments by request bucket and expert: one atomic add per assignment."""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256


@triton.jit
def expert_histogram_kernel(
    expert_ids, bucket_ids, counts, num_assignments, stride_bucket, stride_expert,
    TOP_K: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One lane per assignment: counts[bucket, expert] += 1."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < num_assignments
    expert = tl.load(expert_ids + offsets, mask=inside, other=-1)
    bucket = tl.load(bucket_ids + offsets // TOP_K, mask=inside, other=0)
    cell = counts + bucket * stride_bucket + expert * stride_expert
    one = tl.full([BLOCK], 1, tl.int64)
    tl.atomic_add(cell, one, mask=inside & (expert >= 0), sem="relaxed")


def expert_histogram(expert_ids: Tensor, bucket_ids: Tensor, counts: Tensor) -> None:
    """See `kernels.expert_histogram.reference`; no synchronisation, no temporary."""
    total = expert_ids.numel()
    if total == 0:
        return
    expert_histogram_kernel[(triton.cdiv(total, BLOCK),)](
        expert_ids.contiguous(), bucket_ids.contiguous(), counts, total,
        counts.stride(0), counts.stride(1), TOP_K=expert_ids.shape[1], BLOCK=BLOCK,
    )  # fmt: skip
