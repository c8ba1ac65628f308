"""Simulated frames as the windows that detectors and SLOs read, without HTTP or a database."""

from collections.abc import Iterator

import numpy as np

from contract.frame import ARRAYS
from contract.frame_codec import Frame
from controlplane.history.window import EngineWindow, Sums
from engine.simulation.run import EPOCH, ScenarioRun


def window_of(frame: Frame, *, missing: int = 0) -> EngineWindow:
    """The window of one frame, whose interval is the window's length."""
    header = frame.header
    plain: dict[str, Sums] = {}
    by_generation: dict[int, dict[str, Sums]] = {g: {} for g in header.generations}
    for name, values in frame.arrays.items():
        wide = values.astype(np.uint64)
        if ARRAYS[name].dims[0] == "G":
            for row, generation in enumerate(header.generations):
                by_generation[generation][name] = wide[row]
        else:
            plain[name] = wide
    requests, start = header.requests, header.started_unix_seconds
    return EngineWindow(
        engine_id=header.engine_id, start=start, end=start + header.interval_seconds, frames=1,
        missing=missing, covered_seconds=header.interval_seconds, header=header, arrays=plain,
        by_generation=by_generation, tokens=header.tokens, steps=header.steps,
        sequences=header.sequences, sampled_steps=header.sampled_steps,
        sampled_tokens=header.sampled_tokens, admitted=requests.admitted,
        finished=requests.finished, rejected=requests.rejected, failed=requests.failed,
        tpot_measured=requests.tpot_measured, gate_mass_kept=header.gate_mass_kept,
        gate_mass_total=header.gate_mass_total,
        live_biases=(header.live_bias,) if header.live_bias else (),
    )  # fmt: skip


def windows_of(run: ScenarioRun) -> Iterator[tuple[float, list[EngineWindow]]]:
    """A scenario in process: seconds on its clock, and the windows that arrived by then.

    A window starts where the frame's own clock says, as in the control plane.
    """
    last: tuple[str, int] | None = None
    for ended, frames in run.frames():
        arrived = []
        for frame in frames:
            header = frame.header
            hole = 0
            if last is not None and last[0] == header.boot_id:
                hole = header.sequence - last[1] - 1
            last = header.boot_id, header.sequence
            arrived.append(window_of(frame, missing=hole))
        yield ended - EPOCH, arrived
