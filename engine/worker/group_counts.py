"""A recorder in front of the recorder: keeps a step's group-wide counts for who moves the bias."""

import torch
from torch import Tensor

from engine.moe.context import LayerOutcome, LayerRecorder


class GroupCounts:
    """Passes everything on and keeps `expert_counts`, int64 [L, E], of the present step.

    The counts are the same on every rank, so what is decided from them is too.

    Args:
        recorder: gets every call.
        layers, experts: L, E.
        device: where the layers' tensors live.
    """

    def __init__(
        self, recorder: LayerRecorder, layers: int, experts: int, device: torch.device
    ) -> None:
        self._recorder = recorder
        self.expert_counts = torch.zeros(layers, experts, dtype=torch.int64, device=device)

    def routed(self, layer: int, expert_ids: Tensor, bucket_ids: Tensor, is_decode: Tensor) -> None:
        """Pass on."""
        self._recorder.routed(layer, expert_ids, bucket_ids, is_decode)

    def sampled(
        self, layer: int, live_ids: Tensor, counterfactual_ids: Tensor, bucket_ids: Tensor
    ) -> None:
        """Pass on."""
        self._recorder.sampled(layer, live_ids, counterfactual_ids, bucket_ids)

    def capacity(self, layer: int, outcome: LayerOutcome) -> None:
        """Keep the counts and pass on."""
        self.expert_counts[layer].copy_(outcome.expert_counts)
        self._recorder.capacity(layer, outcome)

    def exchange(
        self, layer: int, op: int, wait_seconds: float, transfer_seconds: float,
        bytes_sent: int, message_bytes: tuple[int, ...],
    ) -> None:  # fmt: skip
        """Pass on."""
        self._recorder.exchange(
            layer, op, wait_seconds, transfer_seconds, bytes_sent, message_bytes
        )

    def gate_mass(self, kept: Tensor, total: Tensor) -> None:
        """Pass on."""
        self._recorder.gate_mass(kept, total)
