"""Loads that follow from selection and placement: of experts and ranks, per step, remembered.

Everything here depends on bias, traffic mix, forced experts and placement, not on luck, so it is
computed when one of those changes and looked up in between.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contract.runtime_config import CAPACITY_LADDER, OverflowMode, RuntimeConfig
from engine.parallel.placement import Placement
from engine.simulation.routing.overflow import step_overflow

Floats = npt.NDArray[np.float64]
_TOKEN_GRID = 0.06
_SEQUENCE_GRID = 0.25
_PACE_GRID = 0.25
_EXACT_TOKENS = 64
"""Loads are computed in the middle of a cell, so that what was asked before changes nothing."""


@dataclass
class StepLoads:
    """Step overflow and rank loads under one selection.

    Attributes:
        selection: [L, E], rows sum to k. config: capacity and overflow mode. placement: ranks.
    """

    selection: Floats
    config: RuntimeConfig
    placement: Placement
    top_k: int
    _known: dict[tuple[int, int], "StepLoad"] = field(default_factory=dict)
    _paces: dict[int, float] = field(default_factory=dict)

    def of(self, tokens: float, sequences: float) -> "StepLoad":
        """The loads of a step of `tokens` tokens from `sequences` sequences."""
        cell = _grid(tokens, _TOKEN_GRID)
        share = min(0, round(math.log(max(sequences, 1.0) / max(tokens, 1.0)) / _SEQUENCE_GRID))
        found = self._known.get((cell, share))
        if found is None:
            centre = _centre(cell, _TOKEN_GRID)
            found = self._compute(max(1, round(centre)), centre * math.exp(share * _SEQUENCE_GRID))
            self._known[cell, share] = found
        return found

    def busiest(self, tokens: float) -> float:
        """Mean over layers of the busiest rank's load, quickly: capacity cuts means, not luck."""
        key = _grid(tokens, _PACE_GRID)
        found = self._paces.get(key)
        if found is None:
            middle = max(1.0, _centre(key, _PACE_GRID))
            computed = middle * self.selection
            factor = self.config.capacity_fraction
            if factor is not None and self.config.overflow_mode is OverflowMode.ENFORCED:
                even = middle * self.top_k / self.selection.shape[1]
                computed = np.minimum(computed, max(self.config.cap_min, float(factor) * even))
            found = float(_busiest(self.placement.rank_load(computed)).mean())
            self._paces[key] = found
        return found

    def _compute(self, tokens: int, sequences: float) -> "StepLoad":
        over = step_overflow(
            self.selection, tokens=tokens, sequences=sequences, top_k=self.top_k,
            cap_min=self.config.cap_min,
        )  # fmt: skip
        factor = self.config.capacity_factor
        rung = None if factor is None else CAPACITY_LADDER.index(factor)
        computed = tokens * self.selection
        if rung is not None and self.config.overflow_mode is OverflowMode.ENFORCED:
            computed = np.maximum(0.0, computed - over.by_expert[rung])
        ranks = self.placement.rank_load(computed)
        mean = np.maximum(computed.mean(axis=1), 1e-9)
        return StepLoad(
            tokens, over.at_rung, over.required, rung, float(computed.sum()), ranks,
            _busiest(ranks), float((over.required / mean).max()),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StepLoad:
    """Expected loads of one step.

    Attributes:
        tokens: T that they were computed for.
        at_rung: [R, L], overflow at every rung. required: [L], largest count of one expert.
        rung: index of the live C, None when dropless.
        computed: assignments that experts compute, over all layers.
        ranks: [L, M], the same by layer and rank.
        busiest: [L], load of the busiest rank over the mean, luck of a step included.
        required_factor: smallest C without overflow.
    """

    tokens: int
    at_rung: Floats
    required: Floats
    rung: int | None
    computed: float
    ranks: Floats
    busiest: Floats
    required_factor: float


def _busiest(ranks: Floats) -> Floats:
    """Largest rank load over the mean: the loaded one, or luck, whichever is more (assumed)."""
    mean = np.maximum(ranks.mean(axis=1), 1e-9)
    lead = ranks.max(axis=1) / mean - 1.0
    luck = np.sqrt(2.0 * np.log(max(2, ranks.shape[1])) / mean)
    joined: Floats = 1.0 + np.hypot(lead, luck)
    return np.minimum(joined, float(ranks.shape[1]))


def _grid(value: float, width: float) -> int:
    if value <= _EXACT_TOKENS:
        return round(value)
    return _EXACT_TOKENS + round(math.log(value / _EXACT_TOKENS) / width)


def _centre(cell: int, width: float) -> float:
    if cell <= _EXACT_TOKENS:
        return float(cell)
    return _EXACT_TOKENS * math.exp((cell - _EXACT_TOKENS) * width)
