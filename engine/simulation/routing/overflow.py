"""Overflow of one step in closed form: Σ_e E[max(0, n_e - cap)] without drawing any step.

n_e has mean λ_e = T·p_e and variance λ_e·(1 - p_e) + λ_e²·s²/n, with s the spread of one sequence's
preference and n the sequences of the step. Small capacities are summed over the binomial, large
ones take the normal form σ·(φ(z) - z·Φ(-z)). Checked against per-step draws to ± 0.5 points.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.moe.capacity import LADDER, slots
from engine.simulation.routing import normal
from engine.simulation.routing.popularity import SEQUENCE_CV

Floats = npt.NDArray[np.float64]
SUMMED_SLOTS = 40
"""Largest capacity that is summed exactly."""


@dataclass(frozen=True, slots=True)
class StepOverflow:
    """Expected figures of one step.

    Attributes:
        by_expert: [R, L, E], overflow of an expert at every rung of the ladder.
        capacity: [R], slots of an expert at every rung.
        required: [L], expected largest count of one expert.
    """

    by_expert: Floats
    capacity: npt.NDArray[np.int64]
    required: Floats

    @property
    def at_rung(self) -> Floats:
        """[R, L], overflow of a layer at every rung of the ladder."""
        summed: Floats = self.by_expert.sum(axis=2)
        return summed


def step_overflow(
    selection: Floats, *, tokens: int, sequences: float, top_k: int, cap_min: int
) -> StepOverflow:
    """Overflow of a step.

    Args:
        selection: [L, E], probability that a token selects an expert.
        tokens: T of the EP group.
        sequences: distinct sequences behind them; T in decode.
        top_k: k.
        cap_min: slots that an expert has at least.
    """
    mean = tokens * selection
    deviation = np.sqrt(
        1e-12  # an expert that is never selected
        + mean * np.maximum(1.0 - selection, 1e-9)
        + (mean * SEQUENCE_CV) ** 2 * max(0.0, 1.0 / max(sequences, 1.0) - 1.0 / tokens)
    )
    experts = selection.shape[1]
    capacity = np.array(
        [slots(c, tokens=tokens, top_k=top_k, num_experts=experts, cap_min=cap_min) for c in LADDER]
    )
    calm = sequences >= tokens / 2
    small = calm and int(capacity.max()) <= SUMMED_SLOTS
    by_expert = (
        binomial_excess(selection, tokens, capacity.tolist()) if small
        else np.stack([normal.excess(mean, deviation, float(c)) for c in capacity])
    )  # fmt: skip
    spread = np.sqrt(2.0 * np.log(experts))
    return StepOverflow(by_expert, capacity, _largest(mean, deviation, spread))


def binomial_excess(selection: Floats, tokens: int, capacities: Sequence[int]) -> Floats:
    """E[max(0, n - c)] for n binomial over `tokens` with chances [L, E], each c: [R, L, E].

    E[max(0, n - c)] = λ - c + Σ_{j<c} (c - j)·P(n = j).
    """
    wanted = sorted(set(capacities))
    mean = tokens * selection
    odds = selection / np.maximum(1.0 - selection, 1e-9)
    below, weighted = np.zeros(mean.shape), np.zeros(mean.shape)
    term = np.exp(tokens * np.log1p(-np.minimum(selection, 1.0 - 1e-9)))
    found: dict[int, Floats] = {}
    for j in range(wanted[-1] + 1):
        if j in wanted:
            found[j] = np.maximum(0.0, mean - j + j * below - weighted)
        below += term
        weighted += j * term
        term = term * odds * (max(0, tokens - j) / (j + 1))
    return np.stack([found[c] for c in capacities])


def _largest(mean: Floats, deviation: Floats, spread: float) -> Floats:
    """Expected maximum over experts: the popular one, or the luck of many, whichever is more."""
    level = mean.mean(axis=1)
    lead = mean.max(axis=1) - level
    luck = spread * deviation.mean(axis=1)
    largest: Floats = level + np.hypot(lead, luck)
    return largest
