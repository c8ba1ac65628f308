"""Gauges without own labels that a frame gives; a frame in which nothing ran leaves some out."""

from contract.frame_codec import Frame


def scalar_gauges(frame: Frame) -> dict[str, float]:
    """Value by name of `contract.metrics`."""
    header = frame.header
    fraction = header.config.capacity_fraction
    gauges: dict[str, float] = {
        "moe_engine_running_requests": header.gauges.running,
        "moe_engine_queued_requests": header.gauges.queued,
        "moe_engine_max_concurrency": header.config.max_concurrency,
        "moe_engine_chunk_size_tokens": header.config.chunk_size,
        "moe_engine_kv_blocks_used_ratio": header.gauges.kv_blocks_used_ratio,
        "moe_engine_config_generation": header.config_generation,
        "moe_router_bias_version": header.bias_version,
        "moe_router_bias_distance": header.bias_distance,
        "moe_capacity_factor_configured_ratio": 0.0 if fraction is None else float(fraction),
    }
    return gauges | _capacity(frame)


def _capacity(frame: Frame) -> dict[str, float]:
    header, arrays = frame.header, frame.arrays
    gauges: dict[str, float] = {}
    if header.required_capacity_factor:
        gauges["moe_capacity_factor_required_ratio"] = header.required_capacity_factor
    if header.gate_mass_total > 0:
        gauges["moe_gate_mass_kept_ratio"] = header.gate_mass_kept / header.gate_mass_total
    assignments = int(arrays["assignments"].sum()) if "assignments" in arrays else 0
    if assignments and "executed" in arrays:
        executed = int(arrays["executed"].sum())
        gauges["moe_capacity_factor_effective_ratio"] = executed / assignments
    if assignments and "capacity_slots" in arrays and header.steps:
        offered = int(arrays["capacity_slots"].sum())
        gauges["moe_capacity_slots"] = offered / (header.layers * header.experts * header.steps)
    return gauges
