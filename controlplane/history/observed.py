"""What a frame says of itself when it was made from another engine's Prometheus endpoint.

Such a frame is written by the control plane, never by an engine: its histograms have our bounds,
but the counts are known only where the other engine has a bucket bound too. It travels in the
header's unknown fields, so nothing of the contract depends on it.
"""

from typing import Any

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
    return _read((header.model_extra or {}).get(FIELD))


def _read(said: Any) -> Observed | None:
    try:
        return None if said is None else Observed.model_validate(said)
    except ValidationError:
        return None


def exact_bounds(header: FrameHeader, array: str) -> tuple[float, ...] | None:
    """Bounds of a histogram at which counts are exact; None when all are."""
    observed = observed_of(header)
    return None if observed is None else observed.exact_bounds.get(array, ())


class CommonBounds:
    """Bounds at which the counts of every summed frame are exact; an engine may change its own.

    A frame without a histogram adds no counts to it, so it says nothing of where they are exact.
    """

    def __init__(self) -> None:
        self._last: Any = None
        self._exact: dict[str, set[float]] = {}

    def see(self, said: Any) -> None:
        """Take in what one header has under `FIELD`; None for an engine that sends its own."""
        if said is None or said == self._last:
            return
        self._last = said
        observed = _read(said)
        for name, bounds in (observed.exact_bounds if observed else {}).items():
            self._exact[name] = self._exact.get(name, set(bounds)) & set(bounds)

    def told_by(self, header: FrameHeader) -> FrameHeader:
        """The header of a sum, its bounds those that all of its frames share."""
        observed = observed_of(header)
        if observed is None:
            return header
        exact = {name: tuple(sorted(bounds)) for name, bounds in self._exact.items()}
        if exact == observed.exact_bounds:
            return header
        told = observed.model_copy(update={"exact_bounds": exact})
        return header.model_copy(update={FIELD: told.model_dump(mode="json")})
