"""What a frame says of itself when it was made from another engine's Prometheus endpoint.

Such a frame is written by the control plane, never by an engine: its histograms have our bounds,
but the counts are known only where the other engine has a bucket bound too. It travels in the
header's unknown fields, so nothing of the contract depends on it.

The contract wants fields that nobody measured there, a config among them; what is told to people
goes through `measured`, which leaves them out.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contract.frame import FrameHeader

FIELD = "observed"
_AS_THEY_ARE = (
    "contract_version", "engine_id", "group", "model", "boot_id", "sequence",
    "started_unix_seconds", "interval_seconds", "histogram_sums", FIELD,
)  # fmt: skip
_TOKENS = ("prefill_tokens", "decode_tokens")
_GAUGES = {"running": "running", "queued": "queued", "kv_blocks_used_ratio": "kv_used"}
_REQUESTS = {"finished": "finished", "rejected": "rejected", "failed": "failed",
             "tpot_measured": "tpot"}  # fmt: skip


class Observed(BaseModel):
    """Where an observe-only engine's numbers come from.

    Attributes:
        kind: the engine's kind, e.g. "vllm".
        exact_bounds: by array name, the upper bounds in seconds at which counts are exact; counts
            at other bounds are interpolated inside the other engine's bucket.
        missing: what the endpoint did not offer, e.g. "tpot", a counter or a gauge.
    """

    model_config = ConfigDict(frozen=True)

    kind: str = Field(max_length=32)
    exact_bounds: dict[str, tuple[float, ...]] = {}
    missing: tuple[str, ...] = ()


def observed_of(header: FrameHeader) -> Observed | None:
    """What the header says; None for an engine that sends its own frames."""
    return read_observed((header.model_extra or {}).get(FIELD))


def read_observed(said: Any) -> Observed | None:
    """What stands under `FIELD`; None for nothing, and for what is no such word."""
    try:
        return None if said is None else Observed.model_validate(said)
    except ValidationError:
        return None


def exact_bounds(header: FrameHeader, array: str) -> tuple[float, ...] | None:
    """Bounds of a histogram at which counts are exact; None when all are."""
    observed = observed_of(header)
    return None if observed is None else observed.exact_bounds.get(array, ())


def measured(header: Mapping[str, Any]) -> dict[str, Any]:
    """A header as JSON without what was not measured; whole for an engine of its own frames."""
    said = header.get(FIELD)
    if not isinstance(said, Mapping):
        return dict(header)
    missing = set(said.get("missing", ()))

    def found(part: str, names: Mapping[str, str]) -> dict[str, Any]:
        told: Mapping[str, Any] = header.get(part, {})
        return {name: told.get(name) for name, what in names.items() if what not in missing}

    counts = zip(_TOKENS, header.get("tokens", ()), strict=False)
    return {
        **{name: header[name] for name in _AS_THEY_ARE if name in header},
        "tokens": [None if what in missing else count for what, count in counts],
        "gauges": found("gauges", _GAUGES),
        "requests": found("requests", _REQUESTS),
    }
