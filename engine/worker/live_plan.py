"""What a rank runs under: the present plan, and those prepared but not yet named by a step."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from contract.runtime_config import BiasUpdate, RuntimeConfig
from engine.errors import RefusedError
from engine.moe.context import CapacityPlan
from engine.worker.messages import Floats, Prepare


@dataclass(frozen=True, slots=True)
class RankPlan:
    """One edition on one rank.

    Attributes:
        generation: of the config.
        capacity: what the MoE layers apply.
        updates_bias: whether the online regulator runs.
        bias: FP32 [L, E] to become live, None to keep the live one (or where there is none).
        lkg_bias: FP32 [L, E] for shadow routing.
    """

    generation: int
    capacity: CapacityPlan
    updates_bias: bool
    bias: Tensor | None
    lkg_bias: Tensor | None


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
    """

    def __init__(
        self, first: RankPlan, bias_shape: tuple[int, int] | None, device: torch.device
    ) -> None:
        self.edition = 0
        self.plan = first
        self.live_bias = first.bias
        self._bias_shape = bias_shape
        self._device = device
        self._prepared: dict[int, RankPlan] = {}

    def prepare(self, message: Prepare) -> None:
        """Build the plan of an edition.

        Raises:
            RefusedError: a tensor does not fit the model; nothing was kept.
        """
        self._prepared[message.edition] = RankPlan(
            generation=message.generation,
            capacity=capacity_plan(message.config),
            updates_bias=message.config.bias_update is BiasUpdate.ON,
            bias=self._checked("bias", message.bias) if message.reload_bias else None,
            lkg_bias=self._checked("lkg_bias", message.lkg_bias),
        )

    def discard(self, edition: int) -> None:
        """Forget a prepared plan."""
        self._prepared.pop(edition, None)

    def switch(self, edition: int) -> bool:
        """Run under an edition from now on; True when that reloaded the bias.

        Raises:
            RefusedError: the edition was never prepared here.
        """
        if edition == self.edition:
            return False
        plan = self._prepared.pop(edition, None)
        if plan is None:
            raise RefusedError(
                f"edition {edition} was not prepared", field="edition", value=edition
            )
        self._prepared.clear()
        self.edition, self.plan = edition, plan
        if plan.bias is None:
            return False
        self.live_bias = plan.bias
        return True

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
