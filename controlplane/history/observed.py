"""What a frame says of itself when it was made from another engine's Prometheus endpoint.

Such a frame is written by the control plane, never by an engine: its histograms have our bounds,
but the counts are known only where the other engine has a bucket bound too. It travels in the
header's unknown fields, so nothing of the contract depends on it.
"""

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contract.frame import FrameHeader

FIELD = "observed"


class Observed(BaseModel):
    """Where an observe-only engine's numbers come from.

    Attributes:
        kind: the engine's kind, e.g. "vllm".
        exact_bounds: by array name, the upper bounds in seconds at which counts are exact; counts
            at other bounds are interpolated inside the other engine's bucket.
        missing: what the endpoint did not offer, e.g. "tpot".
    """

    model_config = ConfigDict(frozen=True)

    kind: str = Field(max_length=32)
    exact_bounds: dict[str, tuple[float, ...]] = {}
    missing: tuple[str, ...] = ()


def observed_of(header: FrameHeader) -> Observed | None:
    """What the header says; None for an engine that sends its own frames."""
    said = (header.model_extra or {}).get(FIELD)
    if said is None:
        return None
    try:
        return Observed.model_validate(said)
    except ValidationError:
        return None


def exact_bounds(header: FrameHeader, array: str) -> tuple[float, ...] | None:
    """Bounds of a histogram at which counts are exact; None when all are."""
    observed = observed_of(header)
    return None if observed is None else observed.exact_bounds.get(array, ())
