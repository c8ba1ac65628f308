"""Windows of one topology: counts of two models are never held against each other. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from contract.frame import ARRAYS, FrameHeader
from controlplane.history.window import EngineWindow


def of_topology(windows: Sequence[EngineWindow], header: FrameHeader) -> list[EngineWindow]:
    """The windows that have the header's layers, experts and ranks, in their order.

    In a window within which the topology changed, arrays that only the older one told of are left
    out.
    """
    sizes = header.sizes()
    shapes = {name: tuple(sizes[dim] for dim in spec.dims) for name, spec in ARRAYS.items()}
    topology = _topology(header)
    return [
        _without_others(window, shapes) for window in windows
        if _topology(window.header) == topology
    ]  # fmt: skip


def _topology(header: FrameHeader) -> tuple[int, int, int]:
    return header.layers, header.experts, header.ranks


def _without_others(window: EngineWindow, shapes: dict[str, tuple[int, ...]]) -> EngineWindow:
    """The window itself where all fits: it remembers what was worked out of it."""
    fitting = {
        name: values for name, values in window.arrays.items()
        if values.shape == shapes.get(name, values.shape)
    }  # fmt: skip
    return window if len(fitting) == len(window.arrays) else replace(window, arrays=fitting)
