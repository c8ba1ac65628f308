"""Shadow routing: whole sampled steps kept with their scores, and counted under another bias.

Every rank samples the same steps and evicts by group-wide token counts, so the ranks' reservoirs
hold the same step ids and their counts can be added up. The counterfactual is layer-wise: hidden
states stay as observed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from contract.frame import NUM_BUCKETS
from engine.moe.router import Router

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SampledStep:
    """One step of this rank.

    Attributes:
        group_tokens: T over the EP group.
        bucket_ids: int64 [T_loc].
        scores: per layer, FP32 [T_loc, E], before any bias.
        live_ids: per layer, int64 [T_loc, k], as routed.
    """

    group_tokens: int
    bucket_ids: Tensor
    scores: list[Tensor] = field(default_factory=list)
    live_ids: list[Tensor] = field(default_factory=list)


class ScoreReservoir:
    """The newest sampled steps, bounded by the memory of their scores.

    Args:
        layers: MoE layers L; a step counts once all of them have come.
        num_experts: E.
        max_bytes: bound on the scores over the whole EP group.
    """

    def __init__(self, layers: int, num_experts: int, max_bytes: int = 128 * 2**20) -> None:
        self.layers = layers
        self.num_experts = num_experts
        self._max_tokens = max_bytes // (4 * num_experts * max(1, layers))
        self._steps: dict[int, SampledStep] = {}

    def add(
        self, step: int, layer: int, scores: Tensor, expert_ids: Tensor, bucket_ids: Tensor,
        *, group_tokens: int,
    ) -> None:  # fmt: skip
        """Keep one layer of one step; layers come in order. Tensors are kept, not copied."""
        if layer == 0:
            self._steps.pop(step, None)
            self._steps[step] = SampledStep(group_tokens, bucket_ids)
            self._evict()
        sampled = self._steps.get(step)
        if sampled is not None and len(sampled.scores) == layer:
            sampled.scores.append(scores.detach())
            sampled.live_ids.append(expert_ids)

    def complete(self) -> dict[int, SampledStep]:
        """The steps that have all their layers, by step id, oldest first."""
        return {
            step: sampled
            for step, sampled in self._steps.items()
            if len(sampled.scores) == self.layers
        }

    def clear(self) -> None:
        """Forget everything: after a change that makes old samples misleading."""
        self._steps.clear()

    def _evict(self) -> None:
        held = sum(sampled.group_tokens for sampled in self._steps.values())
        while held > self._max_tokens and len(self._steps) > 1:
            held -= self._steps.pop(next(iter(self._steps))).group_tokens


@dataclass(frozen=True, slots=True)
class WhatIfCounts:
    """Assignments of the sampled steps, live and counterfactual; of one rank, or added up.

    Attributes:
        steps: int64 [S], step ids.
        tokens: int64 [S], group-wide tokens.
        live, counterfactual: int64 [S, L, E].
        bucket_live, bucket_counterfactual: int64 [B, L, E], all sampled steps together.
    """

    steps: Counts
    tokens: Counts
    live: Counts
    counterfactual: Counts
    bucket_live: Counts
    bucket_counterfactual: Counts


def count_what_if(
    reservoir: ScoreReservoir, router: Router, top_k: int, bias: Tensor | None
) -> WhatIfCounts:
    """Count this rank's sampled steps as routed, and as `bias` would route them.

    Args:
        reservoir: of this rank.
        router: of the model's MoE layers.
        top_k: k.
        bias: FP32 [L, E]; None counts the live routing on both sides (for another C).
    """
    steps = reservoir.complete()
    shape = (len(steps), NUM_BUCKETS, reservoir.layers, reservoir.num_experts)
    live = torch.zeros(shape, dtype=torch.int64)
    other = torch.zeros(shape, dtype=torch.int64)
    for row, sampled in enumerate(steps.values()):
        for layer, scores in enumerate(sampled.scores):
            ids = sampled.live_ids[layer]
            _count(live[row, :, layer], ids, sampled.bucket_ids)
            if bias is not None:
                ids = router.choose(scores, bias[layer], top_k)
            _count(other[row, :, layer], ids, sampled.bucket_ids)
    return WhatIfCounts(
        steps=np.fromiter(steps, dtype=np.int64, count=len(steps)),
        tokens=np.array([sampled.group_tokens for sampled in steps.values()], dtype=np.int64),
        live=live.sum(1).numpy(),
        counterfactual=other.sum(1).numpy(),
        bucket_live=live.sum(0).numpy(),
        bucket_counterfactual=other.sum(0).numpy(),
    )


def add_ranks(ranks: Sequence[WhatIfCounts]) -> WhatIfCounts:
    """The group's counts: the sum over ranks of the same steps.

    Raises:
        ValueError: the ranks did not sample the same steps.
    """
    first = ranks[0]
    for other in ranks[1:]:
        if not np.array_equal(first.steps, other.steps):
            raise ValueError(
                f"ranks sampled different steps: {first.steps.tolist()} and {other.steps.tolist()}"
            )
    return WhatIfCounts(
        steps=first.steps,
        tokens=first.tokens,
        live=np.sum([rank.live for rank in ranks], axis=0),
        counterfactual=np.sum([rank.counterfactual for rank in ranks], axis=0),
        bucket_live=np.sum([rank.bucket_live for rank in ranks], axis=0),
        bucket_counterfactual=np.sum([rank.bucket_counterfactual for rank in ranks], axis=0),
    )


def _count(cells: Tensor, expert_ids: Tensor, bucket_ids: Tensor) -> None:
    """Add assignments [T, k] of buckets [T] to int64 `cells` [B, E]."""
    index = (expert_ids + (bucket_ids * cells.shape[1]).unsqueeze(1)).flatten()
    counted = torch.bincount(index, minlength=cells.numel()).view(cells.shape)
    cells += counted.to(cells.device)
