"""Series of vLLM and SGLang under our names, so that the same dashboards and alerts read them.

`engine` becomes the scraped instance (with vLLM's data-parallel index). They have no MoE series at
all. Buckets keep the bounds of the server: `alerts.burn` says how they are judged.
"""

from alerts.rules import Group, Recording
from contract.metrics import METRICS, Kind

_VLLM = {
    "gen_ai_server_time_to_first_token_seconds": "vllm:time_to_first_token_seconds",
    "gen_ai_server_time_per_output_token_seconds": "vllm:request_time_per_output_token_seconds",
    "gen_ai_server_request_duration_seconds": "vllm:e2e_request_latency_seconds",
    "moe_engine_inter_token_seconds": "vllm:inter_token_latency_seconds",
    "moe_engine_queue_seconds": "vllm:request_queue_time_seconds",
    "moe_engine_running_requests": "vllm:num_requests_running",
    "moe_engine_queued_requests": "vllm:num_requests_waiting",
    "moe_engine_kv_blocks_used_ratio": "vllm:kv_cache_usage_perc",
}
_SGLANG = {
    "gen_ai_server_time_to_first_token_seconds": "sglang:time_to_first_token_seconds",
    "gen_ai_server_time_per_output_token_seconds": "sglang:request_time_per_output_token_seconds",
    "gen_ai_server_request_duration_seconds": "sglang:e2e_request_latency_seconds",
    "moe_engine_inter_token_seconds": "sglang:inter_token_latency_seconds",
    "moe_engine_queue_seconds": "sglang:queue_time_seconds",
    "moe_engine_running_requests": "sglang:num_running_reqs",
    "moe_engine_queued_requests": "sglang:num_queue_reqs",
    "moe_engine_kv_blocks_used_ratio": "sglang:token_usage",
}


def _rules(names: dict[str, str], engine: str, source: str) -> tuple[Recording, ...]:
    rules: list[Recording] = []
    for ours, theirs in names.items():
        histogram = METRICS[ours].kind is Kind.HISTOGRAM
        for suffix in ("_bucket", "_sum", "_count") if histogram else ("",):
            by = "le, model, engine" if suffix == "_bucket" else "model, engine"
            model = f'label_replace({theirs}{suffix}, "model", "$1", "model_name", "(.*)")'
            operation = "sum" if histogram or "ratio" not in ours else "max"
            rules.append(
                Recording(
                    f"{ours}{suffix}",
                    f"{operation} by ({by}) ({engine.format(model)})",
                    {"source": source},
                )
            )
    return tuple(rules)


COMPATIBILITY = (
    Group(
        "trimtab-compatibility-vllm",
        _rules(_VLLM, 'label_join({}, "engine", "/", "instance", "engine")', "vllm"),
    ),
    Group(
        "trimtab-compatibility-sglang",
        _rules(_SGLANG, 'label_replace({}, "engine", "$1", "instance", "(.*)")', "sglang"),
    ),
)
