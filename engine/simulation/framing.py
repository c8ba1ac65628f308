"""The frame of a tick: header and arrays, marked simulated."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from contract import CONTRACT_VERSION
from contract.frame import (
    HISTOGRAM_BOUNDS,
    OPS,
    FrameHeader,
    RequestCounts,
    Role,
    SchedulerGauges,
)
from contract.frame_codec import Frame, saturated
from engine.simulation.cost.exchange import ExchangeSetting
from engine.simulation.counting import Counted
from engine.simulation.load import StepLoad
from engine.simulation.serving.serve import StepKind, Tick
from engine.simulation.timing import Timed, cells

if TYPE_CHECKING:
    from engine.simulation.engine import SimulatedEngine

BUSY_SHARE = 0.70
"""Streaming multiprocessors that are busy while steps run: kernels that wait for their peers spin,
so waiting and working look alike. Assumed, and why utilisation hides an imbalance."""


@dataclass(frozen=True, slots=True)
class Said:
    """All that a frame is made of."""

    engine: "SimulatedEngine"
    tick: Tick
    counted: Counted
    timed: Timed
    steps: int
    kinds: list[tuple[int, StepKind, StepLoad]]
    period_seconds: float
    started_unix: float
    kv_used: float


def frame_of(said: Said) -> Frame:
    """Assemble the frame."""
    arrays = said.counted.arrays | said.timed.arrays | _exchanged(said) | _by_generation(said)
    packed, cut = saturated(arrays)
    return Frame(_header(said, cut), packed)


def _header(said: Said, cut: tuple[str, ...]) -> FrameHeader:
    engine, governed, settings = said.engine, said.engine.governed, said.engine.settings
    shape, tick = engine.model.shape, said.tick
    routed = said.counted.arrays["assignments"][:, 0].sum(axis=1) // shape.top_k
    busy = sum(count * kind.seconds for count, kind, _ in said.kinds) / tick.seconds
    return FrameHeader.model_validate(
        {
            "contract_version": CONTRACT_VERSION, "engine_id": settings.engine_id,
            "group": settings.group, "role": Role(settings.role), "model": shape.name,
            "simulated": True, "expert_set_hash": engine.model.expert_set_hash,
            "boot_id": engine.boot_id, "sequence": engine.sequence,
            "started_unix_seconds": said.started_unix, "interval_seconds": tick.seconds,
            "period_seconds": said.period_seconds, "layers": engine.model.layers,
            "experts": shape.experts, "top_k": shape.top_k, "ranks": settings.layout.ranks,
            "step_first": engine.step_number, "step_last": engine.step_number + said.steps - 1,
            "steps": said.steps, "tokens": (int(routed[0]), int(routed[1])),
            "sequences": engine.running + tick.finished,
            "sampled_steps": said.counted.sampled_steps,
            "sampled_tokens": said.counted.sampled_tokens,
            "generations": said.timed.slots, "config_generation": governed.generation,
            "config": governed.config, "configured_bias": governed.configured_hash,
            "live_bias": governed.live_hash, "lkg_bias": governed.lkg_hash,
            "bias_version": governed.bias_version, "lkg_bias_version": governed.lkg_version,
            "bias_distance": governed.distance, "placement": governed.config.placement,
            "epoch_seen": governed.epoch_seen, "frozen": governed.frozen,
            "gauges": SchedulerGauges(
                running=engine.running, queued=engine.queued, kv_blocks_used_ratio=said.kv_used
            ),
            "requests": RequestCounts(
                admitted=tick.admitted, finished=tick.finished, rejected=tick.rejected,
                tpot_measured=sum(len(values) for _, values in tick.tpot),
            ),
            "gate_mass_kept": said.counted.gate_mass_kept,
            "gate_mass_total": said.counted.gate_mass_total,
            "required_capacity_factor": said.counted.required_factor,
            "histogram_sums": said.timed.sums,
            "saturated": cut,
            "simulated_busy_ratio": BUSY_SHARE * min(1.0, busy),
        }
    )  # fmt: skip


def _by_generation(said: Said) -> dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"]:
    slots = said.timed.slots
    row = slots.index(said.engine.governed.generation)
    routed, over = np.zeros(len(slots), np.int64), np.zeros(len(slots), np.int64)
    routed[row] = said.counted.arrays["assignments"].sum()
    over[row] = said.counted.arrays["overflow"].sum()
    return {"generation_assignments": routed, "generation_overflow": over}


def _exchanged(said: Said) -> dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"]:
    """Bytes and messages of the all-to-all."""
    engine = said.engine
    ranks, shape = engine.settings.layout.ranks, engine.model.shape
    setting = ExchangeSetting(ranks, shape.hidden, shape.experts, shape.top_k)
    sent = np.zeros(len(OPS))
    sizes = np.zeros((len(OPS), len(HISTOGRAM_BOUNDS["message"]) + 1))
    for op, name in enumerate(OPS):
        row = setting.row(name)
        for count, kind, load in said.kinds:
            rows = load.computed * (kind.tokens / load.tokens)
            sent[op] += count * rows * row * (1.0 - 1.0 / ranks)
            messages = float(count * engine.model.layers * ranks * (ranks - 1))
            size = rows / engine.model.layers * row / ranks**2
            sizes[op] += cells("message", np.array([size]), np.array([messages]))
            said.timed.add_sum(f"message.{name}", messages * size)
    return {"a2a_bytes": np.rint(sent).astype(np.int64), "a2a_message": sizes.astype(np.int64)}
