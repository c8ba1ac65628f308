"""What the sampled steps predict for another bias or another C: τ, overflow, max ÷ mean. numpy."""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from contract.admin import WhatIfResponse, WhatIfSide
from engine.moe.capacity import slots
from engine.moe.skew import bucket_tau, count_tau
from engine.moe.what_if import WhatIfCounts

MIN_STEPS = 16
MIN_TOKENS = 4096
"""A prediction on less is marked insufficient."""

Counts = npt.NDArray[np.int64]


def predict(
    counts: WhatIfCounts,
    *,
    top_k: int,
    cap_min: int,
    live_factor: Fraction | None,
    counterfactual_factor: Fraction | None,
) -> WhatIfResponse:
    """Live against counterfactual, per layer; capacity is group-wide and counted per step.

    Args:
        counts: of the whole group (`add_ranks`).
        top_k: k.
        cap_min: of the live config.
        live_factor: C as it is; None is dropless, which never overflows.
        counterfactual_factor: C of the other side; the same for another bias.
    """
    sampled_tokens = int(counts.tokens.sum())
    sufficient = len(counts.steps) >= MIN_STEPS and sampled_tokens >= MIN_TOKENS
    missing = (
        f"{len(counts.steps)} sampled steps and {sampled_tokens} tokens; a prediction wants "
        f"{MIN_STEPS} and {MIN_TOKENS}"
    )
    return WhatIfResponse(
        sampled_steps=len(counts.steps),
        sampled_tokens=sampled_tokens,
        live=_side(counts.live, counts.bucket_live, counts.tokens, top_k, live_factor, cap_min),
        counterfactual=_side(
            counts.counterfactual, counts.bucket_counterfactual, counts.tokens, top_k,
            counterfactual_factor, cap_min,
        ),
        sufficient=sufficient,
        note="" if sufficient else missing,
    )  # fmt: skip


def _side(
    steps: Counts, buckets: Counts, tokens: Counts, top_k: int, factor: Fraction | None,
    cap_min: int,
) -> WhatIfSide:  # fmt: skip
    layers, experts = steps.shape[1:]
    total = steps.sum(0)
    skews = [_tau(buckets[:, layer], total[layer], top_k) for layer in range(layers)]
    beyond = np.zeros((len(steps), layers), dtype=np.int64)
    if factor is not None:
        limits = np.array(
            [slots(factor, tokens=int(t), top_k=top_k, num_experts=experts, cap_min=cap_min)
             for t in tokens], dtype=np.int64,
        )  # fmt: skip
        beyond = np.maximum(0, steps - limits.reshape(-1, 1, 1)).sum(-1)
    assignments = np.maximum(1, total.sum(-1))
    mean = assignments / experts
    return WhatIfSide(
        tau=tuple(tau for tau, _ in skews),
        tau_standard_error=tuple(error for _, error in skews),
        overflow_ratio=tuple((beyond.sum(0) / assignments).tolist()),
        overflow_ratio_total=float(beyond.sum() / assignments.sum()),
        max_over_mean=tuple((total.max(-1) / mean).tolist()),
    )


def _tau(buckets: Counts, total: Counts, top_k: int) -> tuple[float, float]:
    """From request buckets where there are enough of them, else from the plain counts, else 0."""
    for tau, error in (bucket_tau(buckets), count_tau(total, top_k)):
        if not math.isnan(tau):
            return tau, error
    return 0.0, 0.0
