"""Recalibrate the bias offline: right-sign updates on sampled scores until the load is level.

Never touches traffic: it reads scores that were kept, and gives a candidate.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.moe.router import Router
from engine.moe.skew import debiased_cv
from engine.moe.what_if import ScoreReservoir

LoadOf = Callable[[int, Tensor], Tensor]
"""(layer, FP32 bias [E]) → int64 [E], the load that the samples would have under that bias."""


@dataclass(frozen=True, slots=True)
class Recalibration:
    """A candidate bias.

    Attributes:
        bias: FP32 [L, E].
        iterations: of the layer that took longest.
        cv_before, cv_after: debiased expert CV by layer.
        converged: every layer came below the target.
    """

    bias: npt.NDArray[np.float32]
    iterations: int
    cv_before: tuple[float, ...]
    cv_after: tuple[float, ...]
    converged: bool


def recalibrate(
    bias: Tensor,
    load_of: LoadOf,
    top_k: int,
    *,
    target_cv: float,
    max_iterations: int,
    update_speed: float,
) -> Recalibration:
    """B += u · sign(mean - load) layer by layer until debiased CV < target or the iterations end.

    Args:
        bias: FP32 [L, E] to start from; not changed.
        load_of: load under a bias (`sampled_load`).
        top_k: k.
        target_cv: debiased expert CV to come below.
        max_iterations: per layer.
        update_speed: u.
    """
    moved = bias.clone()
    before: list[float] = []
    after: list[float] = []
    longest = 0
    for layer in range(len(moved)):
        row = moved[layer]
        load = load_of(layer, row)
        cv = _cv(load, top_k)
        before.append(cv)
        iterations = 0
        while cv >= target_cv and iterations < max_iterations:
            level = load.double()
            row += torch.sign(level.mean() - level).float() * update_speed
            load = load_of(layer, row)
            cv = _cv(load, top_k)
            iterations += 1
        row -= row.mean() - bias[layer].mean()
        after.append(cv)
        longest = max(longest, iterations)
    return Recalibration(
        bias=moved.cpu().numpy(),
        iterations=longest,
        cv_before=tuple(before),
        cv_after=tuple(after),
        converged=all(cv < target_cv for cv in after),
    )


def sampled_load(reservoir: ScoreReservoir, router: Router, top_k: int) -> LoadOf:
    """The load of a rank's complete sampled steps, all tokens together."""
    steps = list(reservoir.complete().values())
    scores = [
        torch.cat([step.scores[layer] for step in steps]) if steps else torch.zeros(0)
        for layer in range(reservoir.layers)
    ]

    def load_of(layer: int, bias: Tensor) -> Tensor:
        if not steps:
            return torch.zeros(reservoir.num_experts, dtype=torch.int64)
        ids = router.choose(scores[layer], bias, top_k)
        return torch.bincount(ids.flatten(), minlength=reservoir.num_experts)

    return load_of


def _cv(load: Tensor, top_k: int) -> float:
    return float(debiased_cv(load.cpu().numpy(), top_k))
