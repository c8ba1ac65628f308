"""What a rank runs under: the present plan, and those prepared but not yet named by a step."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from contract.runtime_config import BiasUpdate, RuntimeConfig
from engine.errors import RefusedError
from engine.moe.context import CapacityPlan
from engine.worker.messages import Floats, Prepare
from engine.worker.placed_experts import LINEAR, LoadPlacement, PlacedExperts


@dataclass(frozen=True, slots=True)
class RankPlan:
    """One edition on one rank.

    Attributes:
        generation: of the config.
        capacity: what the MoE layers apply.
        updates_bias: whether the online regulator runs.
        bias: FP32 [L, E] to become live, None to keep the live one (or where there is none).
        lkg_bias: FP32 [L, E] for shadow routing.
        experts: a placement to become live, None to keep the live one.
    """

    generation: int
    capacity: CapacityPlan
    updates_bias: bool
    bias: Tensor | None
    lkg_bias: Tensor | None
    experts: PlacedExperts | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """What a switch brought beside the plan itself."""

    reloaded_bias: bool = False
    experts: PlacedExperts | None = None


def capacity_plan(config: RuntimeConfig) -> CapacityPlan:
    """The part of a config that the MoE layers apply."""
    return CapacityPlan(
        capacity_factor=config.capacity_fraction, cap_min=config.cap_min,
        mode=config.overflow_mode, policy=config.overflow_policy,
        domain=config.capacity_domain, dispatch_dtype=config.dispatch_dtype,
    )  # fmt: skip


class LivePlans:
    """Plans by edition; `switch` is the only thing that changes what runs.

    Args:
        first: edition 0.
        bias_shape: (L, E) of the router bias, None where the model has none.
        device: where biases go.
        load: reads the experts of another placement.
    """

    def __init__(
        self,
        first: RankPlan,
        bias_shape: tuple[int, int] | None,
        device: torch.device,
        load: LoadPlacement,
    ) -> None:
        self.edition = 0
        self.plan = first
        self.live_bias = first.bias
        self._bias_shape = bias_shape
        self._device = device
        self._load = load
        self._placement = LINEAR
        self._prepared: dict[int, RankPlan] = {}

    def prepare(self, message: Prepare) -> None:
        """Build the plan of an edition.

        Raises:
            RefusedError: a tensor does not fit the model; nothing was kept.
            CheckpointError: the placement does not split over the ranks.
        """
        experts = None
        if message.config.placement != self._placement:
            experts = self._load(message.config.placement, message.physical_to_logical)
        self._prepared[message.edition] = RankPlan(
            generation=message.generation,
            capacity=capacity_plan(message.config),
            updates_bias=message.config.bias_update is BiasUpdate.ON,
            bias=self._checked("bias", message.bias) if message.reload_bias else None,
            lkg_bias=self._checked("lkg_bias", message.lkg_bias),
            experts=experts,
        )

    def discard(self, edition: int) -> None:
        """Forget a prepared plan."""
        self._prepared.pop(edition, None)

    def switch(self, edition: int) -> Switch:
        """Run under an edition from now on.

        Raises:
            RefusedError: the edition was never prepared here.
        """
        if edition == self.edition:
            return Switch()
        plan = self._prepared.pop(edition, None)
        if plan is None:
            raise RefusedError(
                f"edition {edition} was not prepared", field="edition", value=edition
            )
        self._prepared.clear()
        # Weights of a placement are not kept alive by the plan once another one is live.
        self.edition, self.plan = edition, replace(plan, experts=None)
        if plan.experts is not None:
            self._placement = plan.experts.name
        if plan.bias is not None:
            self.live_bias = plan.bias
        return Switch(reloaded_bias=plan.bias is not None, experts=plan.experts)

    def _checked(self, name: str, bias: Floats | None) -> Tensor | None:
        if bias is None:
            return None
        if bias.shape != self._bias_shape:
            raise RefusedError(
                f"{name} has shape {bias.shape}, the model's router bias has {self._bias_shape}",
                field=name, value=bias.shape, bound=self._bias_shape,
            )  # fmt: skip
        if not np.isfinite(bias).all():
            raise RefusedError(f"{name} holds a value that is not finite", field=name)
        return torch.tensor(bias, dtype=torch.float32, device=self._device)
