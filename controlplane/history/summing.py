"""Sums of frames into an `EngineWindow`. Pure.

The sum of a window is order-free: adding frames one by one, or adding sums of parts, gives the
same counts. Where the model changes inside the window, what is told by layer and expert is that of
the newest model alone, and the window says how many frames are left out of it. Another array whose
shape changes (another rank count) restarts with the shape that was added last.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from contract.frame import ARRAYS, FrameHeader
from contract.frame_codec import Frame
from contract.frame_stack import SideBySide, Stack, Stacked, stack_frames
from controlplane.history.common_bounds import CommonBounds
from controlplane.history.observed import FIELD
from controlplane.history.window import EngineWindow, Sums, Topology

_BY_GENERATION = frozenset(name for name, spec in ARRAYS.items() if spec.dims[0] == "G")
_BY_MODEL = frozenset(name for name, spec in ARRAYS.items() if {"L", "E"} & set(spec.dims))
_LARGEST = 2**32 - 1


def topology_of(header: FrameHeader) -> Topology:
    """Of the model that a frame is about."""
    return header.layers, header.experts


class _OfModel:
    """What was summed of one topology."""

    def __init__(self) -> None:
        self.frames = 0
        self.arrays: dict[str, Sums] = {}


class WindowSum:
    """A running sum over one engine's frames; `window` freezes it."""

    def __init__(self) -> None:
        self.frames = 0
        self.covered_seconds = 0.0
        self.header: FrameHeader | None = None
        self._arrays: dict[str, Sums] = {}
        self._models: dict[Topology, _OfModel] = {}
        self._by_generation: dict[int, dict[str, Sums]] = {}
        self.scalars: dict[str, float] = {}
        self.tokens = [0, 0]
        self.live_biases: list[str] = []
        self._bounds = CommonBounds()

    def add_stack(self, stack: Stack, first: int = 0, end: int | None = None) -> None:
        """Add the frames of a stack from index `first` up to `end`, oldest first.

        Stacks may come in any order; the newest header is kept.
        """
        stop = len(stack.headers) if end is None else end
        alike = groupby(range(first, stop), key=lambda index: _Alike.of(stack.headers[index]))
        for kind, group in alike:
            indices = list(group)
            self._add_headers(stack.headers[indices[0] : indices[-1] + 1])
            self._model(kind.topology).frames += len(indices)
            self._add_small(stack.small, kind, indices[0], indices[-1])
            self._add_large(stack, kind, indices[0], indices[-1])

    def _model(self, topology: Topology) -> _OfModel:
        return self._models.setdefault(topology, _OfModel())

    def _add_headers(self, headers: Sequence[FrameHeader]) -> None:
        self.frames += len(headers)
        self.covered_seconds = sum(
            (header.interval_seconds for header in headers), self.covered_seconds
        )
        for header in headers:
            self._see_header(header)
            for phase, tokens in enumerate(header.tokens):
                self.tokens[phase] += tokens
            if header.live_bias is not None:
                self._see_bias(header.live_bias)
        for name, value_of in _SCALARS.items():
            self.scalars[name] = sum(map(value_of, headers), self.scalars.get(name, 0))

    def _see_header(self, header: FrameHeader) -> None:
        """Keep the newest."""
        self.see_bounds((header.model_extra or {}).get(FIELD))
        newest = self.header
        if newest is None or header.started_unix_seconds >= newest.started_unix_seconds:
            self.header = header

    def see_bounds(self, said: Any) -> None:
        """Where one header says that its counts are exact (`observed.FIELD`)."""
        self._bounds.see(said)

    def _add_small(self, small: SideBySide, kind: "_Alike", first: int, last: int) -> None:
        """Add the small arrays of the frames `first` to `last`, which are alike."""
        total = np.add.reduce(small.values[first : last + 1], axis=0, dtype=np.uint64)
        end = 0
        for column in small.columns:
            shape = column.values.shape[1:]
            begin, end = end, end + math.prod(shape)
            self._add_array(column.name, total[begin:end].reshape(shape), kind)

    def _add_large(self, stack: Stack, kind: "_Alike", first: int, last: int) -> None:
        """Add the other arrays of these frames."""
        within = [(column, *_within(column.holders, first, last)) for column in stack.large]
        held = [(column, begin, end) for column, begin, end in within if begin < end]
        # Of two shapes of one array, the one that was seen last is kept.
        for column, begin, end in sorted(held, key=lambda found: found[0].holders[found[2] - 1]):
            self._add_array(column.name, _total(column.values[begin:end]), kind)

    def _add_array(self, name: str, values: Sums, kind: "_Alike") -> None:
        if name not in _BY_GENERATION:
            _add(self._arrays_for(name, kind.topology), name, values)
            return
        for slot, generation in enumerate(kind.generations):
            _add(self._by_generation.setdefault(generation, {}), name, values[slot])

    def _arrays_for(self, name: str, topology: Topology) -> dict[str, Sums]:
        return self._model(topology).arrays if name in _BY_MODEL else self._arrays

    def merge(self, window: EngineWindow, topology: Topology | None = None) -> None:
        """Add a window that was summed before; `topology` where its header is not its own."""
        topology = topology or topology_of(window.header)
        self.frames += window.frames
        self._model(topology).frames += window.frames - window.left_out
        self.covered_seconds += window.covered_seconds
        self._see_header(window.header)
        for name, values in window.arrays.items():
            _add(self._arrays_for(name, topology), name, values)
        for generation, arrays in window.by_generation.items():
            mine = self._by_generation.setdefault(generation, {})
            for name, values in arrays.items():
                _add(mine, name, values)
        for phase, tokens in enumerate(window.tokens):
            self.tokens[phase] += tokens
        for name in _SCALARS:
            self.scalars[name] = self.scalars.get(name, 0) + getattr(window, name)
        for bias in window.live_biases:
            self._see_bias(bias)

    def window(
        self, engine_id: str, start: float, end: float, *, missing: int = 0
    ) -> EngineWindow | None:
        """The frozen sum; None when no frame was added."""
        if self.header is None:
            return None
        whole = {name: int(self.scalars.get(name, 0)) for name in _WHOLE}
        model = self._model(topology_of(self.header))
        return EngineWindow(
            engine_id=engine_id,
            start=start,
            end=end,
            frames=self.frames,
            missing=missing,
            covered_seconds=self.covered_seconds,
            header=self._bounds.told_by(self.header),
            arrays={**self._arrays, **model.arrays},
            by_generation={key: dict(value) for key, value in self._by_generation.items()},
            tokens=(self.tokens[0], self.tokens[1]),
            gate_mass_kept=self.scalars.get("gate_mass_kept", 0.0),
            gate_mass_total=self.scalars.get("gate_mass_total", 0.0),
            live_biases=tuple(self.live_biases),
            left_out=self.frames - model.frames,
            **whole,
        )

    def _see_bias(self, bias: str) -> None:
        if bias not in self.live_biases:
            self.live_biases.append(bias)


class _Alike(NamedTuple):
    """What frames that are summed together share."""

    generations: tuple[int, ...]
    topology: Topology

    @classmethod
    def of(cls, header: FrameHeader) -> "_Alike":
        return cls(header.generations, topology_of(header))


_OF_HEADER = (
    "steps", "sequences", "sampled_steps", "sampled_tokens", "gate_mass_kept", "gate_mass_total",
)  # fmt: skip
_OF_REQUESTS = ("admitted", "finished", "rejected", "failed", "tpot_measured")
_SCALARS: dict[str, Callable[[FrameHeader], float]] = {
    **{name: attrgetter(name) for name in _OF_HEADER},
    **{name: attrgetter(f"requests.{name}") for name in _OF_REQUESTS},
}
_WHOLE = tuple(name for name in _SCALARS if not name.startswith("gate_mass"))


def sum_frames(
    engine_id: str, start: float, end: float, frames: Iterable[Frame], *, missing: int = 0
) -> EngineWindow | None:
    """The window of some frames; None when there is none."""
    total = WindowSum()
    in_order = sorted(frames, key=lambda frame: frame.header.started_unix_seconds)
    total.add_stack(stack_frames(in_order))
    return total.window(engine_id, start, end, missing=missing)


def _within(holders: Sequence[int], first: int, last: int) -> tuple[int, int]:
    """Where among `holders` the frames `first` to `last` are: from, and up to."""
    return bisect_left(holders, first), bisect_right(holders, last)


def _total(values: Stacked) -> Sums:
    """The sum over the first axis, in 32 bits where no cell can overflow: half the time."""
    held = values.dtype.itemsize
    largest = int(values.max(initial=0)) if held > 2 else 1 << 8 * held
    narrow = largest * len(values) <= _LARGEST
    total: Sums = np.add.reduce(values, axis=0, dtype=np.uint32 if narrow else np.uint64)
    return total


def _add(into: dict[str, Sums], name: str, values: Sums) -> None:
    """Add into a sum of its own; a G axis that was taken apart may leave a 0-d array."""
    present = into.get(name)
    if present is None or present.shape != np.shape(values):
        into[name] = np.array(values, dtype=np.uint64)
    else:
        np.add(present, values, out=present)
