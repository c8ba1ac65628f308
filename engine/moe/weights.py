"""Weights of one MoE layer on one rank."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """The router, this rank's physical experts, and the shared expert.

    Input dimension first, so that a row times a weight is a plain product.

    Attributes:
        router: FP32 [E, d] whatever the model's dtype.
        gate_up: [S_loc, d, 2f], gate columns before up columns.
        down: [S_loc, f, d].
        shared_gate_up: [d, 2·f_shared], None without a shared expert.
        shared_down: [f_shared, d].
    """

    router: Tensor
    gate_up: Tensor
    down: Tensor
    shared_gate_up: Tensor | None = None
    shared_down: Tensor | None = None

    def shard(self, logical_experts: Sequence[int]) -> "ExpertWeights":
        """The same layer holding only these logical experts, in this order (one rank's slots)."""
        index = torch.as_tensor(logical_experts, dtype=torch.int64, device=self.gate_up.device)
        return ExpertWeights(
            router=self.router,
            gate_up=self.gate_up.index_select(0, index),
            down=self.down.index_select(0, index),
            shared_gate_up=self.shared_gate_up,
            shared_down=self.shared_down,
        )


def from_output_first(
    router: Tensor,
    gate_up: Tensor,
    down: Tensor,
    shared_gate_up: Tensor | None = None,
    shared_down: Tensor | None = None,
) -> ExpertWeights:
    """Weights from the layout of `torch.nn.Linear` (output dimension first), copied once.

    Args:
        router: [E, d], any float dtype; kept in FP32.
        gate_up: [S, 2f, d].
        down: [S, d, f].
        shared_gate_up: [2·f_shared, d] or None.
        shared_down: [d, f_shared] or None.
    """
    return ExpertWeights(
        router=router.float(),
        gate_up=gate_up.transpose(1, 2).contiguous(),
        down=down.transpose(1, 2).contiguous(),
        shared_gate_up=None if shared_gate_up is None else shared_gate_up.t().contiguous(),
        shared_down=None if shared_down is None else shared_down.t().contiguous(),
    )
