"""The aux-loss-free bias update: pure, with the right sign, held on a leash.

b_e += u · sign(mean - n_e): an expert with less than the mean load becomes easier to choose
(arXiv 2408.15664, algorithm 1). Online it is off by default. When on, it waits for a window of
tokens (on 64-token windows the bias random-walks for nothing), keeps the mean of its change at
zero (a common shift chooses nothing; the leash may bend that), and never strays further than
`clamp` from where it began.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RegulatorRule:
    """How far and how often the bias may move.

    Attributes:
        update_speed: u, per update.
        clamp: largest |b - anchor| of any expert.
        min_tokens: group tokens behind one update.
    """

    update_speed: float = 1e-3
    clamp: float = 0.1
    min_tokens: int = 2048


def updated_bias(bias: Tensor, anchor: Tensor, counts: Tensor, rule: RegulatorRule) -> Tensor:
    """One update, FP32 [L, E], from the load of its window.

    Args:
        bias: FP32 [L, E], now.
        anchor: FP32 [L, E], where updating began; the leash is measured from here.
        counts: int64 [L, E], group-wide assignments of the window.
        rule: speed and clamp.
    """
    load = counts.double()
    step = torch.sign(load.mean(-1, keepdim=True) - load).float() * rule.update_speed
    change = bias + step - anchor
    change = (change - change.mean(-1, keepdim=True)).clamp(-rule.clamp, rule.clamp)
    return anchor + change


class Regulator:
    """Gathers windows and updates at their ends; one per engine, fed the same on every rank.

    Args:
        anchor: FP32 [L, E], the configured bias.
        rule: speed, clamp, window.
    """

    def __init__(self, anchor: Tensor, rule: RegulatorRule | None = None) -> None:
        self.rule = RegulatorRule() if rule is None else rule
        self._anchor = anchor.clone()
        self._counts = torch.zeros_like(anchor, dtype=torch.int64)
        self._tokens = 0

    def observe(self, bias: Tensor, counts: Tensor, tokens: int) -> Tensor | None:
        """Count one step; the next bias when a window is full, else None.

        Args:
            bias: FP32 [L, E], live.
            counts: int64 [L, E], the step's group-wide assignments.
            tokens: of the step, over the group.
        """
        self._counts += counts
        self._tokens += tokens
        if self._tokens < self.rule.min_tokens:
            return None
        moved = updated_bias(bias, self._anchor, self._counts, self.rule)
        self._counts.zero_()
        self._tokens = 0
        return moved
