"""What an MoE layer needs to know of the step it runs in, beside its input."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from torch import Tensor

from contract.runtime_config import (
    CapacityDomain,
    DispatchDtype,
    OverflowMode,
    OverflowPolicy,
)
from engine.telemetry.phase_timer import NO_PHASES, LayerPhases


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """Capacity and overflow of one generation; `capacity_factor` None is dropless."""

    capacity_factor: Fraction | None
    cap_min: int
    mode: OverflowMode
    policy: OverflowPolicy
    domain: CapacityDomain
    dispatch_dtype: DispatchDtype


class LayerRecorder(Protocol):
    """Where an MoE layer leaves its counts: on the device, no synchronisation, no Python loop.

    Every call is made on every rank for every layer of every step, with T_loc = 0 too.
    Counts stay local to the rank; the engine sums ranks when a frame leaves.
    """

    def routed(self, layer: int, expert_ids: Tensor, bucket_ids: Tensor, is_decode: Tensor) -> None:
        """Assignments before capacity: expert_ids int64 [T_loc, k], bucket and phase [T_loc]."""
        ...

    def sampled(
        self, layer: int, live_ids: Tensor, counterfactual_ids: Tensor, bucket_ids: Tensor
    ) -> None:
        """A sampled step: the same tokens routed live and by the LKG bias, int64 [T_loc, k]."""
        ...

    def capacity(self, layer: int, outcome: "LayerOutcome") -> None:
        """What capacity did in this step, group-wide (identical on every rank), to be counted.

        Who counts a whole step's layers together, after the step, costs the step nothing.
        """
        ...

    def exchange(
        self, layer: int, op: int, wait_seconds: float, transfer_seconds: float,
        bytes_sent: int, message_bytes: tuple[int, ...],
    ) -> None:  # fmt: skip
        """One all-to-all of the step before (op 0 dispatch, 1 combine): what it cost this rank."""
        ...

    def gate_mass(self, kept: Tensor, total: Tensor) -> None:
        """This rank's gate weights, kept and before dropping, of any shape: their sums count.

        Both are the same tensor where nothing was dropped or rerouted.
        """
        ...


class ScoreSink(Protocol):
    """Where a sampled step leaves its router scores (`engine.moe.what_if.ScoreReservoir`)."""

    def add(
        self, step: int, layer: int, scores: Tensor, expert_ids: Tensor, bucket_ids: Tensor,
        *, group_tokens: int,
    ) -> None:  # fmt: skip
        """Keep one layer of one step: pre-bias scores FP32 [T_loc, E], live ids [T_loc, k]."""
        ...


class LayerOutcome(Protocol):
    """What capacity did to one layer in one step: references, nothing counted yet."""

    @property
    def expert_counts(self) -> Tensor:
        """int64 [E], assignments over the EP group before capacity."""
        ...

    @property
    def rank_tokens(self) -> tuple[int, ...]:
        """Tokens of every rank in the step."""
        ...

    def together(self, layers: Sequence[Any]) -> "CapacityOutcome":
        """Count outcomes of this kind: of steps with the same plan and tokens as this one."""
        ...


@dataclass(frozen=True, slots=True)
class CapacityOutcome:
    """Group-wide counts of L layers, of one step or of steps alike; int64 tensors on the device.

    Attributes:
        expert_counts: [L, E], assignments over the EP group before capacity.
        tokens: tokens of a step over the EP group.
        slots: capacity of one expert in slots (None when dropless).
        overflow: [L], assignments beyond the live capacity, before reroute.
        overflow_at_rung: [L, R].
        rerouted, spilled, dropped, executed, tokens_all_dropped: [L], group-wide counts.
        card_counts: [L, M], executed assignments by the rank that computes them.
    """

    expert_counts: Tensor
    tokens: int
    slots: int | None
    overflow: Tensor
    overflow_at_rung: Tensor
    rerouted: Tensor
    spilled: Tensor
    dropped: Tensor
    executed: Tensor
    tokens_all_dropped: Tensor
    card_counts: Tensor


@dataclass(frozen=True, slots=True)
class MoEStepContext:
    """One step, the same on every rank but for the token tensors.

    Attributes:
        plan: capacity and overflow of the live generation.
        bias: FP32 [L, E] live selection bias over MoE layers, None where the model has none.
        lkg_bias: FP32 [L, E] of the last known good, None when there is none.
        sampled: whether this step is a shadow-routing sample.
        bucket_ids: int64 [T_loc]; is_decode: bool [T_loc].
        recorder: takes the counts.
        step: number of the step, the same on every rank.
        reservoir: takes the scores of sampled steps; None keeps none.
        phases: takes the times of the layers' phases.
    """

    plan: CapacityPlan
    bias: Tensor | None
    lkg_bias: Tensor | None
    sampled: bool
    bucket_ids: Tensor
    is_decode: Tensor
    recorder: LayerRecorder
    step: int = 0
    reservoir: ScoreSink | None = None
    phases: LayerPhases = NO_PHASES
