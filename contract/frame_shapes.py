"""What the arrays of a frame may be: their shapes, and how many bytes, by its own header. Pure."""

import math
from functools import lru_cache

from contract.frame import ARRAYS, FrameHeader
from contract.frame_arrays import FrameError, Listing, Shape

MOST_EXPERTS = 1 << 17
"""Experts of all layers together: several times those of the largest models."""
SPARE_BYTES = 1 << 20
"""What arrays of a newer minor may have beyond as much as those that are known here."""


def check_shapes(header: FrameHeader, listed: Listing) -> None:
    """Whether known arrays have the shapes that the header says, and the others a sensible size.

    Raises:
        FrameError: they have not; nothing was unpacked to say so.
    """
    topology = (header.layers, header.experts, header.ranks, len(header.generations))
    if topology == listed.fits:
        return
    check_topology(header)
    expected, known_bytes = _shapes(tuple(header.sizes().items()))
    for name, _, shape in listed.known:
        if shape != expected[name]:
            raise FrameError("shape", f"{name} has shape {shape}, not {expected[name]}")
    bound = known_bytes + SPARE_BYTES
    if listed.unknown_bytes > bound:
        raise FrameError(
            "too-large",
            f"header field _arrays lists {listed.unknown_bytes} bytes of unknown arrays, the bound "
            f"for {header.layers} layers × {header.experts} experts × {header.ranks} ranks is "
            f"{bound}",
        )
    listed.fits = topology


def check_topology(header: FrameHeader) -> None:
    """Whether there are not too many experts.

    Raises:
        FrameError: there are.
    """
    experts = header.layers * header.experts
    if experts > MOST_EXPERTS:
        raise FrameError(
            "too-large",
            f"header fields layers × experts: {header.layers} × {header.experts} is {experts}, "
            f"the bound is {MOST_EXPERTS}",
        )


@lru_cache(64)
def _shapes(sizes: tuple[tuple[str, int], ...]) -> tuple[dict[str, Shape], int]:
    """The shape of every known array, and the most bytes that all of them can have.

    By how long each dimension is: made once for a topology.
    """
    named = dict(sizes)
    shapes = {name: tuple(named[symbol] for symbol in spec.dims) for name, spec in ARRAYS.items()}
    return shapes, sum(8 * math.prod(s[:-1]) + 4 * math.prod(s) for s in shapes.values())
