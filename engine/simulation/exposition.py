"""`/metrics` of a simulated engine: the gauges that a scheduler has, by the contract's names."""

from engine.simulation.run import ScenarioRun

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(run: ScenarioRun) -> bytes:
    """Prometheus text of one engine; labelled simulated."""
    engine = run.engine
    governed = engine.governed
    labels = (
        f'engine="{engine.settings.engine_id}",model="{engine.model.shape.name}",simulated="true"'
    )
    factor = governed.config.capacity_fraction
    values = {
        "moe_engine_running_requests": float(engine.running),
        "moe_engine_queued_requests": float(engine.queued),
        "moe_engine_max_concurrency": float(governed.config.max_concurrency),
        "moe_engine_chunk_size_tokens": float(governed.config.chunk_size),
        "moe_engine_config_generation": float(governed.generation),
        "moe_router_bias_version": float(governed.bias_version),
        "moe_router_bias_distance": governed.distance,
        "moe_capacity_factor_configured_ratio": float(factor or 0),
    }
    lines: list[str] = []
    for name, value in values.items():
        lines += [f"# TYPE {name} gauge", f"{name}{{{labels}}} {value:g}"]
    return ("\n".join(lines) + "\n").encode()
