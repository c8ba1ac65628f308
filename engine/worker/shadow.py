"""Shadow routing on one rank: the scores of sampled steps, and what is counted from them."""

import torch

from engine.moe.router import build_router
from engine.moe.spec import MoESpec
from engine.moe.what_if import ScoreReservoir, WhatIfCounts, count_what_if
from engine.worker.messages import Floats

_TOKENS = 8192
"""Group tokens whose scores are kept: twice what a prediction wants, about 25 ms to count again."""


class ShadowRouting:
    """The sampled steps of a rank.

    Args:
        moe: shape of the MoE layers.
        layers: L.
        device: where biases go.
    """

    def __init__(self, moe: MoESpec, layers: int, device: torch.device) -> None:
        self.reservoir = ScoreReservoir(
            layers, moe.num_experts, max_bytes=4 * moe.num_experts * max(1, layers) * _TOKENS
        )
        self._router = build_router(moe)
        self._top_k = moe.top_k
        self._device = device

    def count(self, bias: Floats | None) -> WhatIfCounts:
        """Assignments as routed, and as `bias` [L, E] would route the same tokens."""
        other = None if bias is None else torch.tensor(bias, device=self._device)
        return count_what_if(self.reservoir, self._router, self._top_k, other)

    def scores(self) -> tuple[Floats, ...]:
        """Pre-bias scores by layer, FP32 [T_loc, E]."""
        steps = self.reservoir.complete().values()
        return tuple(
            torch.cat([step.scores[layer].cpu() for step in steps]).numpy()
            for layer in range(self.reservoir.layers if steps else 0)
        )
