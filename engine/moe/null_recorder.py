"""A recorder that keeps nothing: for serving without telemetry and for tests."""

from torch import Tensor

from engine.moe.context import CapacityOutcome


class NullRecorder:
    """Satisfies `LayerRecorder` and forgets everything."""

    def routed(self, layer: int, expert_ids: Tensor, bucket_ids: Tensor, is_decode: Tensor) -> None:
        """Forget the assignments."""

    def sampled(
        self, layer: int, live_ids: Tensor, counterfactual_ids: Tensor, bucket_ids: Tensor
    ) -> None:
        """Forget the sample."""

    def capacity(self, layer: int, outcome: CapacityOutcome) -> None:
        """Forget the outcome."""

    def exchange(
        self, layer: int, op: int, wait_seconds: float, transfer_seconds: float,
        bytes_sent: int, message_bytes: tuple[int, ...],
    ) -> None:  # fmt: skip
        """Forget the exchange."""

    def gate_mass(self, kept: Tensor, total: Tensor) -> None:
        """Forget the gate mass."""
