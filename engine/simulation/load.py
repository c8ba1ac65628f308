"""Loads that follow from selection and placement: of experts and ranks, per step, remembered.

Everything here depends on bias, traffic mix, forced experts and placement, not on luck, so it is
computed when one of those changes and looked up in between.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from contract.runtime_config import CAPACITY_LADDER, OverflowMode, RuntimeConfig
from engine.parallel.placement import Placement
from engine.simulation.routing.overflow import StepOverflow, step_overflow

Floats = npt.NDArray[np.float64]
_TOKEN_GRID = 0.06
_SEQUENCE_GRID = 0.4
_PACE_GRID = 0.25
_EXACT_TOKENS = 256


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
        key = _grid(tokens, _TOKEN_GRID), _grid(sequences, _SEQUENCE_GRID)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._compute(max(1, round(tokens)), sequences)
        return found

    def busiest(self, tokens: float) -> float:
        """Mean over layers of the busiest rank's load, quickly: capacity cuts means, not luck."""
        key = _grid(tokens, _PACE_GRID)
        found = self._paces.get(key)
        if found is None:
            computed = max(1.0, tokens) * self.selection
            factor = self.config.capacity_fraction
            if factor is not None and self.config.overflow_mode is OverflowMode.ENFORCED:
                even = max(1.0, tokens) * self.top_k / self.selection.shape[1]
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
        return StepLoad(tokens, over, rung, computed, ranks, _busiest(ranks))


@dataclass(frozen=True, slots=True)
class StepLoad:
    """Expected loads of one step.

    Attributes:
        tokens: T that they were computed for.
        over: overflow. rung: index of the live C, None when dropless.
        computed: [L, E], assignments that experts compute.
        ranks: [L, M], the same by rank.
        busiest: [L], load of the busiest rank over the mean, luck of a step included.
    """

    tokens: int
    over: StepOverflow
    rung: int | None
    computed: Floats
    ranks: Floats
    busiest: Floats

    @property
    def required_factor(self) -> float:
        """Smallest C without overflow."""
        level = self.computed.shape[1]
        mean = self.tokens * self.computed.sum(axis=1) / max(1, self.tokens) / level
        return float((self.over.required / np.maximum(mean, 1e-9)).max())


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
    return _EXACT_TOKENS + round(float(np.log(value / _EXACT_TOKENS)) / width)
