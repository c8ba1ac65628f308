"""The recorder of an engine that records nothing."""

from typing import TYPE_CHECKING

from torch import Tensor

from engine.telemetry.counts import RankCounts

if TYPE_CHECKING:
    from engine.moe.context import LayerOutcome


class NullRecorder:
    """Records nothing: `EngineConfig.recording` off."""

    def begin_step(self, step: int, generation: int, phase: int) -> None:
        """Ignore."""

    def routed(self, layer: int, expert_ids: Tensor, bucket_ids: Tensor, is_decode: Tensor) -> None:
        """Ignore."""

    def sampled(
        self, layer: int, live_ids: Tensor, counterfactual_ids: Tensor, bucket_ids: Tensor
    ) -> None:
        """Ignore."""

    def capacity(self, layer: int, outcome: "LayerOutcome") -> None:
        """Ignore."""

    def exchange(
        self, layer: int, op: int, wait_seconds: float, transfer_seconds: float,
        bytes_sent: int, message_bytes: tuple[int, ...],
    ) -> None:  # fmt: skip
        """Ignore."""

    def gate_mass(self, kept: Tensor, total: Tensor) -> None:
        """Ignore."""

    def end_step(self) -> None:
        """Ignore."""

    def drain(self, *, period: bool) -> RankCounts:
        """Nothing was counted."""
        return RankCounts(rank=0, arrays={}, period=period)
