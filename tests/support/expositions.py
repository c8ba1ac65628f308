"""Prometheus expositions as vLLM and SGLang write them, small and with numbers that are known."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "serving_metrics_samples"
"""Expositions of real servers; beside the tree, not in it."""
OBSERVED = "vllm-0"
VLLM_TTFT = (0.1, 0.25, 0.5, 1.0)
VLLM_TPOT = (0.01, 0.025, 0.05, 0.075)


def histogram(
    name: str, bounds: tuple[float, ...], cells: tuple[int, ...], total: float, labels: str = ""
) -> str:
    """`cells` has a count for each bound and one above the last; the text is cumulative."""
    lines = [f"# TYPE {name} histogram", f"{name}_sum{{{labels}}} {total}"]
    below = 0
    for bound, count in zip((*map(str, bounds), "+Inf"), cells, strict=True):
        below += count
        lines.append(f'{name}_bucket{{le="{bound}",{labels}}} {float(below)}')
    lines.append(f"{name}_count{{{labels}}} {float(below)}")
    return "\n".join(lines) + "\n"


def sample(name: str, value: object, labels: str = "", kind: str = "gauge") -> str:
    return f"# TYPE {name} {kind}\n{name}{{{labels}}} {value}\n"


def vllm(
    ttft: tuple[int, ...] = (0, 0, 0, 0, 0),
    tpot: tuple[int, ...] = (0, 0, 0, 0, 0),
    *,
    running: object = 3,
    generated: int = 0,
    engine: int = 0,
) -> str:
    """One data-parallel engine of a vLLM server."""
    labels = f'engine="{engine}",model_name="tiny"'
    return (
        histogram("vllm:time_to_first_token_seconds", VLLM_TTFT, ttft, 1.5, labels)
        + histogram("vllm:request_time_per_output_token_seconds", VLLM_TPOT, tpot, 0.5, labels)
        + sample("vllm:num_requests_running", running, labels)
        + sample("vllm:num_requests_waiting", 2, labels)
        + sample("vllm:kv_cache_usage_perc", 0.25, labels)
        + sample("vllm:generation_tokens_total", generated, labels, "counter")
    )


@dataclass
class Endpoint:
    """An ASGI application with `/metrics`; what it answers is set by the test."""

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope["path"])
        if scope["path"] != "/metrics":
            await _answer(send, 404, {}, b"no such path")
            return
        await _answer(send, self.status, self.headers, self.text.encode())


async def _answer(send: Any, status: int, headers: Mapping[str, str], body: bytes) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
