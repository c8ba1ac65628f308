"""Logical expert → physical slot on the device, for one layer. Slots are contiguous by rank."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import BadRequestError


@dataclass(frozen=True, slots=True)
class SlotLookup:
    """Where the replicas of every logical expert of one layer lie.

    Attributes:
        ranks: M.
        slots_per_rank: S / M; rank r holds slots [r·S/M, (r+1)·S/M).
        replica_slots: int64 [E, most replicas]; rows with fewer repeat their own from the start.
        num_replicas: int64 [E], each ≥ 1.
        linear: slot = expert, so that no lookup is needed.
    """

    ranks: int
    slots_per_rank: int
    replica_slots: Tensor
    num_replicas: Tensor
    linear: bool

    @property
    def has_replicas(self) -> bool:
        """Whether any expert has more than one physical copy."""
        return self.replica_slots.shape[1] > 1

    def slots(self, expert_ids: Tensor, replica: Tensor | None) -> Tensor:
        """int64 slots of `expert_ids` [T, k]; `replica` broadcasts, taken modulo the replicas.

        None takes the first copy of everything.
        """
        if self.linear:
            return expert_ids
        if replica is None:
            return self.replica_slots[:, 0][expert_ids]
        chosen = torch.remainder(replica, self.num_replicas[expert_ids])
        return self.replica_slots[expert_ids, chosen]

    def ranks_of(self, slots: Tensor) -> Tensor:
        """The rank that holds each slot; -1 // anything stays negative."""
        return torch.div(slots, self.slots_per_rank, rounding_mode="floor")


def build_lookup(
    physical_to_logical: Sequence[int], *, num_experts: int, ranks: int, device: torch.device
) -> SlotLookup:
    """The lookup of one layer from its physical → logical row [S].

    Raises:
        BadRequestError: S is not a multiple of the ranks, an id is out of range, or an expert has
            no physical copy.
    """
    num_slots = len(physical_to_logical)
    if num_slots == 0 or num_slots % ranks:
        raise BadRequestError(
            f"placement has {num_slots} slots, not a positive multiple of {ranks} ranks",
            field="placement", value=num_slots, bound=ranks,
        )  # fmt: skip
    replicas: list[list[int]] = [[] for _ in range(num_experts)]
    for slot, expert in enumerate(physical_to_logical):
        if not 0 <= expert < num_experts:
            raise BadRequestError(
                f"placement slot {slot} names expert {expert}, outside 0..{num_experts - 1}",
                field="placement", value=int(expert), bound=num_experts - 1,
            )  # fmt: skip
        replicas[expert].append(slot)
    for expert, held in enumerate(replicas):
        if not held:
            raise BadRequestError(
                f"placement has no slot for expert {expert}",
                field="placement", value=expert, bound=1,
            )  # fmt: skip
    most = max(len(held) for held in replicas)
    padded = [[held[i % len(held)] for i in range(most)] for held in replicas]
    return SlotLookup(
        ranks=ranks,
        slots_per_rank=num_slots // ranks,
        replica_slots=torch.tensor(padded, dtype=torch.int64, device=device),
        num_replicas=torch.tensor([len(held) for held in replicas], device=device),
        linear=list(physical_to_logical) == list(range(num_experts)),
    )
