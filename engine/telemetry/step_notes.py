"""What the MoE layers left by reference in one step, until it is added up."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from engine.moe.context import LayerOutcome


@dataclass(slots=True)
class StepNotes:
    """One step of one rank, layers in the order in which they ran.

    Attributes:
        generation: live config generation.
        layers: of the routings; expert_ids: int64 [T, k] each.
        tokens: request bucket int64 [T] and phase bool [T] of the step's tokens.
        samples: layer, live and counterfactual ids, buckets of a sampled step.
        outcome_layers, outcomes: what capacity did.
        kept, total: gate weights by layer.
    """

    generation: int = 0
    layers: list[int] = field(default_factory=list)
    expert_ids: list[Tensor] = field(default_factory=list)
    tokens: tuple[Tensor, Tensor] | None = None
    samples: list[tuple[int, Tensor, Tensor, Tensor]] = field(default_factory=list)
    outcome_layers: list[int] = field(default_factory=list)
    outcomes: "list[LayerOutcome]" = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    total: list[Tensor] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether no layer left anything."""
        return not (self.layers or self.samples or self.outcomes or self.total)

    @property
    def num_assignments(self) -> int:
        """Assignments that are held by reference."""
        return sum(ids.numel() for ids in self.expert_ids)

    def is_like(self, other: "StepNotes") -> bool:
        """Whether the two can be added up as one: same shapes, same generation, same capacity."""
        return (
            self.generation == other.generation
            and self.layers == other.layers
            and self.outcome_layers == other.outcome_layers
            and [ids.shape for ids in self.expert_ids] == [ids.shape for ids in other.expert_ids]
            and [each.rank_tokens for each in self.outcomes[:1]]
            == [each.rank_tokens for each in other.outcomes[:1]]
        )
