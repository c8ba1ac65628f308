"""Which series of vLLM and SGLang hold what, newest name first; names change between releases.

Sources: vLLM 0.33.0 `vllm/v1/metrics/loggers.py`; SGLang 0.5.23 `metrics_collector.py`; older names
from their deprecation notes and from expositions of real servers. Both engines once exported the
gap between tokens as `time_per_output_token_seconds`: it counts tokens, not requests, so it is
read as the inter-token latency and never as TPOT.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from controlplane.engine_kind import EngineKind


@dataclass(frozen=True, slots=True)
class Names:
    """Candidate names by what they measure; the first that the endpoint has is read.

    Without a candidate nothing of that engine measures it: it is missing, which is not zero.

    Attributes:
        histograms: by the array of a frame that they become.
        counters: requests and tokens, by their place in a frame's header.
        gauges: the scheduler's state.
    """

    histograms: Mapping[str, tuple[str, ...]]
    counters: Mapping[str, tuple[str, ...]]
    gauges: Mapping[str, tuple[str, ...]]


_VLLM = Names(
    histograms=MappingProxyType({
        "ttft": ("vllm:time_to_first_token_seconds",),
        "tpot": ("vllm:request_time_per_output_token_seconds",),
        "inter_token": (
            "vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds",
        ),
        "queue_time": ("vllm:request_queue_time_seconds",),
        "request_time": ("vllm:e2e_request_latency_seconds",),
    }),
    counters=MappingProxyType({
        "prefill_tokens": ("vllm:prompt_tokens_total",),
        "decode_tokens": ("vllm:generation_tokens_total",),
        "finished": ("vllm:request_success_total",),
        "rejected": ("vllm:admission_rejections_total",),
        "failed": (),
    }),
    gauges=MappingProxyType({
        "running": ("vllm:num_requests_running",),
        "queued": ("vllm:num_requests_waiting",),
        "kv_used": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    }),
)  # fmt: skip
_SGLANG = Names(
    histograms=MappingProxyType({
        "ttft": ("sglang:time_to_first_token_seconds",),
        "tpot": ("sglang:request_time_per_output_token_seconds",),
        "inter_token": (
            "sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds",
        ),
        "queue_time": ("sglang:queue_time_seconds",),
        "request_time": ("sglang:e2e_request_latency_seconds",),
    }),
    counters=MappingProxyType({
        "prefill_tokens": ("sglang:prompt_tokens_total",),
        "decode_tokens": ("sglang:generation_tokens_total",),
        "finished": ("sglang:num_requests_total",),
        "rejected": (),
        "failed": ("sglang:num_aborted_requests_total",),
    }),
    gauges=MappingProxyType({
        "running": ("sglang:num_running_reqs",),
        "queued": ("sglang:num_queue_reqs",),
        "kv_used": ("sglang:full_token_usage", "sglang:token_usage"),
    }),
)  # fmt: skip
NAMES: Mapping[EngineKind, Names] = MappingProxyType(
    {EngineKind.VLLM: _VLLM, EngineKind.SGLANG: _SGLANG}
)
