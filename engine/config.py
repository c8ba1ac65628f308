"""Start-up config of an engine: what cannot change while it runs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

REFERENCE_CHECKPOINT = Path(__file__).parent / "model" / "reference"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Everything fixed at start.

    Attributes:
        engine_id, group, role: identity; must match what the control plane is configured with.
        checkpoint: folder in Hugging Face layout.
        ranks: expert-parallel ranks, one process each.
        device: where ranks compute.
        collectives: how CPU ranks exchange rows, "sockets" between every two of them or
            "distributed" (gloo); CUDA ranks always take torch.distributed (NCCL).
        dtype: of weights and activations; the router and its bias stay FP32.
        context_tokens: longest sequence, in tokens.
        kv_blocks: KV blocks of one rank.
        block_tokens: tokens of a KV block.
        queue_limit: requests that may wait; one more is answered 429.
        state_dir: config generations, bias snapshots, epoch; fsynced.
        frame_seconds: interval of a frame.
        period_seconds: interval of its bucket arrays.
        whatif_every: one step in this many is sampled for shadow routing.
        watchdog_seconds: a rank that is silent this long inside a step has failed.
        telemetry_url: control plane's ingest; None sends nothing.
        telemetry_token: bearer token that goes with the frames.
        frame_buffer: frames kept while the control plane is away.
        otlp_endpoint: base URL that OpenTelemetry metrics and spans go to; None sends none.
        recording: False serves without the recorder (only `trimtab bench overhead`).
        seed: seed of sampling and of random placements.
        faults: names of the faults that may be injected; empty switches the routes off.
    """

    engine_id: str = "engine-0"
    group: str = "group-0"
    role: Literal["mixed", "prefill", "decode"] = "mixed"
    checkpoint: Path = REFERENCE_CHECKPOINT
    ranks: int = 2
    device: Literal["cpu", "cuda"] = "cpu"
    collectives: Literal["sockets", "distributed"] = "sockets"
    dtype: Literal["float32", "bfloat16"] = "float32"
    context_tokens: int = 2048
    kv_blocks: int = 1024
    block_tokens: int = 16
    queue_limit: int = 256
    state_dir: Path = Path("var/engine")
    frame_seconds: float = 1.0
    period_seconds: float = 10.0
    whatif_every: int = 16
    watchdog_seconds: float = 4.0
    telemetry_url: str | None = None
    telemetry_token: str | None = None
    frame_buffer: int = 900
    otlp_endpoint: str | None = None
    recording: bool = True
    seed: int = 0
    faults: frozenset[str] = field(default_factory=frozenset)
