"""What a simulated engine is made of."""

from dataclasses import dataclass, field
from typing import Literal

from contract.runtime_config import CHUNK_SIZES, OverflowMode, RuntimeConfig
from engine.simulation.cost.step import Layout
from engine.simulation.cost.topology import TOPOLOGIES, Topology
from engine.simulation.model import SimulatedModel
from engine.simulation.serving.traffic import FittedWorkload, Workload

TOKENS_PER_SEQUENCE = 8


@dataclass(frozen=True)
class SimulationSettings:
    """One simulated engine.

    Attributes:
        engine_id, group, role: identity in frames.
        model: what it serves. where, layout: on which cards.
        runtime: the first config. workload: its requests.
        seed: of its traffic and draws; the model has a seed of its own.
        queue_limit: requests that may wait. period_seconds: of the bucket arrays.
        boot: beginning of its boot ids; a process that may start twice needs a new one each time.
        start_at: second of the simulated day at which it starts.
    """

    engine_id: str
    model: SimulatedModel
    runtime: RuntimeConfig
    workload: Workload = field(default_factory=lambda: FittedWorkload(20.0))
    where: Topology = TOPOLOGIES["hgx-h100"]
    layout: Layout = field(default_factory=lambda: Layout(32))
    group: str = "group-0"
    role: Literal["mixed", "prefill", "decode"] = "mixed"
    seed: int = 0
    queue_limit: int = 4096
    period_seconds: float = 10.0
    boot: str = "simulated"
    start_at: float = 0.0


def default_runtime(
    ranks: int, *, per_rank: int = 32, mode: OverflowMode = OverflowMode.ENFORCED
) -> RuntimeConfig:
    """Knobs that suit a group of `ranks`: so many sequences a rank, and a step budget to go.

    Eight tokens of the budget a sequence is the ratio of the contract's own defaults, 512 to 64.
    """
    concurrency = min(4096, per_rank * ranks)
    wanted = min(TOKENS_PER_SEQUENCE * concurrency, CHUNK_SIZES[-1])
    chunk = next(size for size in CHUNK_SIZES if size >= wanted)
    return RuntimeConfig(chunk_size=chunk, max_concurrency=concurrency, overflow_mode=mode)
