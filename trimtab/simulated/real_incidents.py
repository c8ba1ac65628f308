"""Recorded hot-expert incidents as scenarios: a 256-expert model whose expert 114 was forced.

The recording has selection counts of one condition each, summed over 40 layers and three prompts.
Its baseline is the healthy traffic, its condition sets in at the onset; tokens are drawn from both.
Replayed when the recordings lie beside the checkout.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from engine.simulation.cost.presets import preset
from engine.simulation.engine import SimulatedEngine
from engine.simulation.events import TrafficShift
from engine.simulation.model import SimulatedModel
from engine.simulation.routing.popularity import capped_selection
from engine.simulation.run import ScenarioRun
from engine.simulation.scenario import EngineSpec, Scenario, TrafficSpec, Truth
from trimtab.bench.calibration import DATA
from trimtab.bench.routing_tables import qwen_counts

CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "recorded-hot-expert-forced": "expert_114_forced_inclusion",
        "recorded-hot-expert-raised": "expert_114_soft_bias_1.0",
    }
)
ONSET, END = 1800.0, 3600.0
TOP_K = 8


def recorded_names() -> tuple[str, ...]:
    """Incidents that can be replayed here; none without the recordings."""
    return tuple(CONDITIONS) if (DATA / "moe_routing_qwen35_256e").exists() else ()


def recorded_run(name: str, *, seed: int = 0) -> ScenarioRun:
    """One of the recorded incidents on a simulated engine."""
    scenario = Scenario(
        name=name, title=f"Recorded: {CONDITIONS[name]}", seconds=END,
        engine=EngineSpec(layers=1, biased=False), traffic=TrafficSpec(),
        events=(TrafficShift(kind="traffic_shift", at=ONSET, mix=(0.0, 1.0, 0.0)),),
        truth=Truth(
            onset=ONSET, end=END, causes=("traffic",), detectors=("hot_experts", "load_change"),
            eases=("capacity_factor",),
            scope="expert 114", action="none for the bias; page",
        ),
    )  # fmt: skip
    settings = scenario.settings(seed=seed)
    model = _model(CONDITIONS[name])
    return ScenarioRun(scenario, SimulatedEngine(replace(settings, model=model)))


def _model(condition: str) -> SimulatedModel:
    rows = [
        capped_selection(qwen_counts(each)[None] + 0.5, TOP_K, ceiling=0.999)
        for each in ("baseline", condition, "baseline")
    ]
    return SimulatedModel(
        shape=preset("deepseek-v3"),
        layers=1,
        popularity=np.stack(rows),
        checkpoint_bias=None,
        expert_set_hash="recorded",
    )
