"""Where experts lie: physical slot → logical expert per layer, slots contiguous by rank. numpy.

Pure values: no torch here, so that the planner and the simulation read the same placements.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contract.admin import PlacementBody
from engine.errors import BadRequestError

SlotMap = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Placement:
    """One placement of a model's experts over the ranks of an EP group.

    Attributes:
        physical_to_logical: int64 [L, S]; rank r holds slots [r·S/M, (r+1)·S/M).
        ranks: M.
        num_experts: E, logical experts of a layer.
    """

    physical_to_logical: SlotMap
    ranks: int
    num_experts: int

    def __post_init__(self) -> None:
        """Refuse a placement that does not split by rank or leaves an expert without a slot."""
        layers, slots = self.physical_to_logical.shape
        if slots == 0 or slots % self.ranks:
            raise BadRequestError(
                f"placement has {slots} slots, not a positive multiple of {self.ranks} ranks",
                field="physical_to_logical", value=slots, bound=self.ranks,
            )  # fmt: skip
        outside = (self.physical_to_logical < 0) | (self.physical_to_logical >= self.num_experts)
        if outside.any():
            layer, slot = np.argwhere(outside)[0]
            raise BadRequestError(
                f"placement layer {layer} slot {slot} names expert "
                f"{self.physical_to_logical[layer, slot]}, outside 0..{self.num_experts - 1}",
                field="physical_to_logical", value=int(self.physical_to_logical[layer, slot]),
                bound=self.num_experts - 1,
            )  # fmt: skip
        for layer in range(layers):
            missing = np.flatnonzero(self.replicas(layer) == 0)
            if missing.size:
                raise BadRequestError(
                    f"placement layer {layer} has no slot for expert {missing[0]}",
                    field="physical_to_logical", value=int(missing[0]), bound=1,
                )  # fmt: skip

    @property
    def slots_per_rank(self) -> int:
        """S / M."""
        return int(self.physical_to_logical.shape[1]) // self.ranks

    @property
    def has_replicas(self) -> bool:
        """Whether there are more slots than experts."""
        return bool(self.physical_to_logical.shape[1] > self.num_experts)

    def replicas(self, layer: int) -> SlotMap:
        """Physical copies of every expert of a layer, int64 [E]."""
        return np.bincount(self.physical_to_logical[layer], minlength=self.num_experts)

    def experts_of(self, layer: int, rank: int) -> SlotMap:
        """Logical experts of a rank's slots, in slot order, int64 [S / M]."""
        start = rank * self.slots_per_rank
        return self.physical_to_logical[layer, start : start + self.slots_per_rank]

    def rank_load(self, loads: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Load of every rank, [L, M], when replicas share an expert's load [L, E] equally."""
        layers = np.arange(len(loads))[:, None]
        if self.has_replicas:
            loads = loads / np.stack([self.replicas(layer) for layer in range(len(loads))])
        shares: npt.NDArray[np.float64] = loads[layers, self.physical_to_logical]
        by_rank: npt.NDArray[np.float64] = shares.reshape(len(loads), self.ranks, -1).sum(-1)
        return by_rank

    def content_hash(self) -> str:
        """SHA-256 of ranks and map, 64 hex digits."""
        text = f"{self.ranks}:{self.num_experts}:{self.physical_to_logical.tolist()}"
        return hashlib.sha256(text.encode()).hexdigest()


def linear(layers: int, num_experts: int, ranks: int) -> Placement:
    """Slot = expert: rank r holds the r-th run of ids.

    Raises:
        BadRequestError: the experts do not split over the ranks.
    """
    row = np.arange(num_experts, dtype=np.int64)
    return Placement(np.tile(row, (layers, 1)), ranks, num_experts)


def round_robin(layers: int, num_experts: int, ranks: int) -> Placement:
    """Expert e on rank e mod M, so that neighbouring ids lie apart.

    Raises:
        BadRequestError: the experts do not split over the ranks.
    """
    row = np.concatenate([np.arange(rank, num_experts, ranks) for rank in range(ranks)])
    return Placement(np.tile(row.astype(np.int64), (layers, 1)), ranks, num_experts)


def from_body(body: PlacementBody, *, layers: int, num_experts: int, ranks: int) -> Placement:
    """A placement from the admin API's body.

    Raises:
        BadRequestError: it is for other ranks or layers, rows differ in length, or it is invalid.
    """
    if body.ranks != ranks:
        raise BadRequestError(
            f"placement is for {body.ranks} ranks, this group has {ranks}",
            field="ranks", value=body.ranks, bound=ranks,
        )  # fmt: skip
    if len(body.physical_to_logical) != layers:
        raise BadRequestError(
            f"placement has {len(body.physical_to_logical)} layers, the model has {layers}",
            field="physical_to_logical", value=len(body.physical_to_logical), bound=layers,
        )  # fmt: skip
    lengths = sorted({len(row) for row in body.physical_to_logical})
    if len(lengths) > 1:
        raise BadRequestError(
            f"placement rows differ in length: {lengths}",
            field="physical_to_logical", value=lengths, bound="one length",
        )  # fmt: skip
    table = np.array(body.physical_to_logical, dtype=np.int64).reshape(layers, -1)
    return Placement(table, ranks, num_experts)


def to_body(placement: Placement, placement_id: str) -> PlacementBody:
    """The admin API's body of a placement."""
    rows = tuple(tuple(row) for row in placement.physical_to_logical.tolist())
    return PlacementBody(placement_id=placement_id, ranks=placement.ranks, physical_to_logical=rows)
