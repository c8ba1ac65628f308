"""Series of vLLM and SGLang under our names, so that the same dashboards and alerts read them.

`engine` is what the scrape config calls the target, where it sets that label. Else it is the
scraped instance, with vLLM's data-parallel index where vLLM names one. They have no MoE series at
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

_SAID = "instance_and_engine"


def _engine(selected: str) -> str:
    """Its `engine` made ours: nothing becomes host:port, vLLM's index host:port/index.

    Anything but digits was set by the scrape config, and stays.
    """
    joined = f'label_join({selected}, "{_SAID}", ";", "instance", "engine")'
    indexed = f'label_replace({joined}, "engine", "$1/$2", "{_SAID}", "(.*);([0-9]+)")'
    return f'label_replace({indexed}, "engine", "$1", "{_SAID}", "(.*);")'


def _rules(names: dict[str, str], source: str) -> tuple[Recording, ...]:
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
                    f"{operation} by ({by}) ({_engine(model)})",
                    {"source": source},
                )
            )
    return tuple(rules)


COMPATIBILITY = (
    Group("trimtab-compatibility-vllm", _rules(_VLLM, "vllm")),
    Group("trimtab-compatibility-sglang", _rules(_SGLANG, "sglang")),
)
