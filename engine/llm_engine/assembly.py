"""The parts of an engine core that a start-up config decides."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client import Metric

from contract.frame import Role
from contract.runtime_config import RuntimeConfig
from engine.config import EngineConfig
from engine.llm_engine import clock
from engine.llm_engine.exchange import LivePlan, ModelFacts
from engine.llm_engine.frame_reporter import FrameReporter, FrameSink, hash_of
from engine.telemetry.exporter import FrameExporter
from engine.telemetry.frame_builder import EngineIdentity, FrameBuilder
from engine.telemetry.no_otel import NoOpenTelemetry
from engine.telemetry.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from engine.telemetry.otel import OpenTelemetry


def build_exporter(config: EngineConfig, boot_id: str) -> FrameExporter | None:
    """What sends frames to the control plane; None where there is none."""
    if config.telemetry_url is None:
        return None
    return FrameExporter(
        config.telemetry_url, config.telemetry_token, engine_id=config.engine_id,
        boot_id=boot_id, frames=config.frame_buffer,
    )  # fmt: skip


def build_otel(
    config: EngineConfig, collect: Callable[[], Iterable[Metric]]
) -> "OpenTelemetry | NoOpenTelemetry":
    """What sends metrics and spans to the user's OTLP endpoint; nothing where there is none."""
    if config.otlp_endpoint is None:
        return NoOpenTelemetry()
    from engine.telemetry.otel import OpenTelemetry

    return OpenTelemetry(
        config.otlp_endpoint, engine_id=config.engine_id, group=config.group, collect=collect
    )


def build_reporter(
    config: EngineConfig,
    model: ModelFacts,
    *,
    boot_id: str,
    metrics: RequestMetrics,
    sinks: tuple[FrameSink, ...],
    free_bytes: int,
) -> FrameReporter:
    """What cuts time into frames, beginning now."""
    identity = EngineIdentity(
        engine_id=config.engine_id, group=config.group, model=model.name, boot_id=boot_id,
        layers=model.moe_layers, experts=model.experts, top_k=model.top_k, ranks=config.ranks,
        role=Role(config.role), expert_set_hash=model.expert_set_hash,
    )  # fmt: skip
    return FrameReporter(
        num_ranks=config.ranks, builder=FrameBuilder(identity), metrics=metrics,
        frame_seconds=config.frame_seconds, period_seconds=config.period_seconds, sinks=sinks,
        unix_seconds=clock.unix_seconds, now=clock.monotonic(), free_bytes=free_bytes,
    )  # fmt: skip


def first_plan(model: ModelFacts) -> LivePlan:
    """What ranks run before any commit: the defaults and the checkpoint's bias."""
    bias = model.checkpoint_bias
    config = RuntimeConfig(router_bias=None if bias is None else hash_of(bias))
    return LivePlan(generation=0, config=config, bias=bias)
