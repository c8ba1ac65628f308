"""What engines of one model have in common: step costs, and the loads of the checkpoint's bias.

A fleet of equals would otherwise compute and keep the same thing once an engine.
"""

from dataclasses import dataclass, field

from contract.runtime_config import RuntimeConfig
from engine.simulation.cost.shape import ModelShape
from engine.simulation.cost.step import Layout
from engine.simulation.cost.topology import Topology
from engine.simulation.load import StepLoads
from engine.simulation.serving.step_clock import StepClock


@dataclass
class Shared:
    """Caches; they change no result."""

    _clocks: dict[tuple[ModelShape, Topology, Layout], StepClock] = field(default_factory=dict)
    _healthy: dict[tuple[object, ...], StepLoads] = field(default_factory=dict)

    def clock(self, shape: ModelShape, where: Topology, layout: Layout) -> StepClock:
        """Step costs of a model on its cards."""
        key = shape, where, layout
        return self._clocks.setdefault(key, StepClock(shape, where, layout))

    def healthy(self, loads: StepLoads) -> StepLoads:
        """Loads under the checkpoint's bias and plain traffic, as some engine computed them."""
        return self._healthy.setdefault(_key(loads.config, loads.placement.ranks), loads)


def _key(config: RuntimeConfig, ranks: int) -> tuple[object, ...]:
    return config.capacity_factor, config.cap_min, config.overflow_mode, config.placement, ranks
