"""What governs a simulated engine now: the committed plan, the live bias, the placement."""

from dataclasses import dataclass

import numpy as np

from contract.runtime_config import RuntimeConfig
from engine.parallel.placement import Placement, linear
from engine.simulation.model import Bias, SimulatedModel, hash_of


@dataclass
class Governed:
    """The committed state. `live_bias` differs from the committed one while something moves it.

    Attributes:
        live_bias, lkg_bias: FP32 [L, E]; None where the model has none.
        reloads: how often a commit replaced the live bias; a drift that started before one ends.
    """

    config: RuntimeConfig
    generation: int
    live_bias: Bias | None
    lkg_bias: Bias | None
    placement: Placement
    configured_hash: str | None = None
    live_hash: str | None = None
    lkg_hash: str | None = None
    bias_version: int = 0
    lkg_version: int = 0
    reloads: int = 0
    epoch_seen: int = 0
    frozen: bool = False

    @classmethod
    def first(cls, model: SimulatedModel, config: RuntimeConfig, ranks: int) -> "Governed":
        """Generation 1 of a fresh engine: the checkpoint's bias, last known good."""
        bias = model.checkpoint_bias
        key = None if bias is None else hash_of(bias)
        return cls(
            config=config.model_copy(update={"router_bias": key}), generation=1, live_bias=bias,
            lkg_bias=bias, placement=linear(model.layers, model.shape.experts, ranks),
            configured_hash=key, live_hash=key, lkg_hash=key, bias_version=int(bias is not None),
            lkg_version=int(bias is not None),
        )  # fmt: skip

    def move_bias(self, bias: Bias) -> None:
        """An updater changed the live bias."""
        self.live_bias = bias
        self.live_hash = hash_of(bias)

    def roll_back(self) -> None:
        """Make the last known good live; what drifted stops."""
        self.live_bias, self.live_hash = self.lkg_bias, self.lkg_hash
        self.configured_hash = self.lkg_hash
        self.reloads += 1

    @property
    def distance(self) -> float:
        """L∞ of the live bias to the last known good."""
        if self.live_bias is None or self.lkg_bias is None:
            return 0.0
        return float(np.abs(self.live_bias - self.lkg_bias).max())
