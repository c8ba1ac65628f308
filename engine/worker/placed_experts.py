"""A placement with the weights that it puts on this rank: loaded beforehand, taken at one step."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.model.checkpoint.load import load_experts
from engine.model.decoder import Decoder
from engine.moe.weights import ExpertWeights
from engine.parallel.groups import ExpertGroup
from engine.worker.messages import Ints

LINEAR = "linear"
"""The placement that ranks start with: slot = expert."""


@dataclass(frozen=True, slots=True)
class PlacedExperts:
    """One placement on one rank.

    Attributes:
        name: its id.
        physical_to_logical: int64 [L, slots]; None is linear.
        weights: of this rank's slots, by MoE layer.
    """

    name: str
    physical_to_logical: Ints | None
    weights: tuple[ExpertWeights, ...]

    def put_into(self, decoder: Decoder) -> None:
        """Every MoE layer takes its row and weights, at a step boundary."""
        for index, layer in enumerate(decoder.moe_layers):
            rows = self.physical_to_logical
            layer.place(self.weights[index], None if rows is None else rows[index].tolist())


LoadPlacement = Callable[[str, Ints | None], PlacedExperts]


def placement_loader(
    checkpoint: Path, group: ExpertGroup, device: torch.device, dtype: torch.dtype
) -> LoadPlacement:
    """Reads this rank's experts from the checkpoint; raises CheckpointError where it cannot."""

    def load(name: str, physical_to_logical: Ints | None) -> PlacedExperts:
        weights = load_experts(
            checkpoint, group=group, device=device, dtype=dtype, placement=physical_to_logical
        )
        return PlacedExperts(name, physical_to_logical, weights)

    return load
