"""Count assignments by request bucket and expert, in plain torch."""

from torch import Tensor


def expert_histogram(expert_ids: Tensor, bucket_ids: Tensor, counts: Tensor) -> None:
    """Add to `counts[b, e]` the assignments of tokens of bucket b to expert e, in place.

    Args:
        expert_ids: int64 [T, k]; a negative id counts nowhere.
        bucket_ids: int64 [T], each in 0..B-1.
        counts: int64 [B, E], any strides: one layer of a [B, L, E] tensor.
    """
    held = expert_ids >= 0
    buckets = bucket_ids.unsqueeze(1).expand_as(expert_ids)
    ones = held.to(counts.dtype).flatten()
    counts.index_put_((buckets.flatten(), expert_ids.clamp_min(0).flatten()), ones, accumulate=True)
