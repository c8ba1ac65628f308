"""Where the counts of a sum of scraped frames are exact. Pure."""

from typing import Any

from contract.frame import FrameHeader
from controlplane.history.observed import FIELD, observed_of, read_observed


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
        observed = read_observed(said)
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
