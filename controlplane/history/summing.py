"""Sums of frames into an `EngineWindow`. Pure.

The sum of a window is order-free: adding frames one by one, or adding sums of parts, gives the
same counts. An array whose shape changes inside the window (another model, another rank count)
restarts with the newer shape: two topologies are never added.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from contract.frame import ARRAYS, FrameHeader
from contract.frame_codec import Counts, Frame
from controlplane.history.window import EngineWindow, Sums

_BY_GENERATION = frozenset(name for name, spec in ARRAYS.items() if spec.dims[0] == "G")
_LARGEST = 2**32 - 1
_COUNTED = ("admitted", "finished", "rejected", "failed", "tpot_measured")


class WindowSum:
    """A running sum over one engine's frames; `window` freezes it."""

    def __init__(self) -> None:
        self.frames = 0
        self.covered_seconds = 0.0
        self.header: FrameHeader | None = None
        self.arrays: dict[str, Sums] = {}
        self.by_generation: dict[int, dict[str, Sums]] = {}
        self.scalars: dict[str, float] = {}
        self.tokens = [0, 0]
        self.live_biases: list[str] = []

    def add(self, frame: Frame) -> None:
        """Add one frame. Frames may come in any order; the newest header is kept."""
        self.add_alike([frame])

    def add_alike(self, frames: Sequence[Frame]) -> None:
        """Add frames that have the same generations, arrays and shapes: one addition an array."""
        for frame in frames:
            header = frame.header
            self.frames += 1
            self.covered_seconds += header.interval_seconds
            newest = self.header
            if newest is None or header.started_unix_seconds >= newest.started_unix_seconds:
                self.header = header
            self._add_scalars(header)
        for name in frames[0].arrays:
            values = _total([frame.arrays[name] for frame in frames])
            if name in _BY_GENERATION:
                for slot, generation in enumerate(frames[0].header.generations):
                    _add(self.by_generation.setdefault(generation, {}), name, values[slot])
            else:
                _add(self.arrays, name, values)

    def merge(self, window: EngineWindow) -> None:
        """Add a window that was summed before."""
        self.frames += window.frames
        self.covered_seconds += window.covered_seconds
        header = window.header
        if self.header is None or header.started_unix_seconds >= self.header.started_unix_seconds:
            self.header = header
        for name, values in window.arrays.items():
            _add(self.arrays, name, values)
        for generation, arrays in window.by_generation.items():
            mine = self.by_generation.setdefault(generation, {})
            for name, values in arrays.items():
                _add(mine, name, values)
        for phase, tokens in enumerate(window.tokens):
            self.tokens[phase] += tokens
        for name in _SCALARS:
            self._count(name, getattr(window, name))
        for bias in window.live_biases:
            self._see_bias(bias)

    def window(
        self, engine_id: str, start: float, end: float, *, missing: int = 0
    ) -> EngineWindow | None:
        """The frozen sum; None when no frame was added."""
        if self.header is None:
            return None
        whole = {name: int(self.scalars.get(name, 0)) for name in _WHOLE}
        return EngineWindow(
            engine_id=engine_id,
            start=start,
            end=end,
            frames=self.frames,
            missing=missing,
            covered_seconds=self.covered_seconds,
            header=self.header,
            arrays=dict(self.arrays),
            by_generation={key: dict(value) for key, value in self.by_generation.items()},
            tokens=(self.tokens[0], self.tokens[1]),
            gate_mass_kept=self.scalars.get("gate_mass_kept", 0.0),
            gate_mass_total=self.scalars.get("gate_mass_total", 0.0),
            live_biases=tuple(self.live_biases),
            **whole,
        )

    def _add_scalars(self, header: FrameHeader) -> None:
        for phase, tokens in enumerate(header.tokens):
            self.tokens[phase] += tokens
        for name in _OF_HEADER:
            self._count(name, getattr(header, name))
        for name in _COUNTED:
            self._count(name, getattr(header.requests, name))
        if header.live_bias is not None:
            self._see_bias(header.live_bias)

    def _count(self, name: str, value: float) -> None:
        self.scalars[name] = self.scalars.get(name, 0) + value

    def _see_bias(self, bias: str) -> None:
        if bias not in self.live_biases:
            self.live_biases.append(bias)


_OF_HEADER = (
    "steps", "sequences", "sampled_steps", "sampled_tokens", "gate_mass_kept", "gate_mass_total",
)  # fmt: skip
_SCALARS = _OF_HEADER + _COUNTED
_WHOLE = tuple(name for name in _SCALARS if not name.startswith("gate_mass"))


def sum_frames(
    engine_id: str, start: float, end: float, frames: Iterable[Frame], *, missing: int = 0
) -> EngineWindow | None:
    """The window of some frames; None when there is none."""
    total = WindowSum()
    in_order = sorted(frames, key=lambda frame: frame.header.started_unix_seconds)
    for _, alike in groupby(in_order, key=_kind):
        total.add_alike(list(alike))
    return total.window(engine_id, start, end, missing=missing)


def _kind(frame: Frame) -> object:
    """What frames must share to be added array by array."""
    return frame.header.generations, {name: v.shape for name, v in frame.arrays.items()}


def _total(values: Sequence[Counts]) -> Counts | Sums:
    """The sum of arrays of one shape, in 32 bits where no cell can overflow: a third of the time.

    The result is new, except that of a single array, which is the array itself.
    """
    if len(values) == 1:
        return values[0]
    if sum(int(part.max(initial=0)) for part in values) > _LARGEST:
        wide = values[0].astype(np.uint64)
        for part in values[1:]:
            np.add(wide, part, out=wide)
        return wide
    narrow = values[0] + values[1]
    for part in values[2:]:
        np.add(narrow, part, out=narrow)
    return narrow


def _add(into: dict[str, Sums], name: str, values: Counts | Sums) -> None:
    """Add into a sum of its own; a G axis that was taken apart may leave a 0-d array."""
    present = into.get(name)
    if present is None or present.shape != np.shape(values):
        into[name] = np.array(values, dtype=np.uint64)
    else:
        np.add(present, values, out=present)
