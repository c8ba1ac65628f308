"""A recorded request trace as the workload of simulated engines."""

from pathlib import Path

import numpy as np

from engine.simulation.serving.traffic import RecordedWorkload
from trimtab.errors import InputError
from trimtab.replay.scaling import fit_rate
from trimtab.replay.trace import TraceError, read_trace


def recorded_workload(trace: Path, rate: float | None = None) -> RecordedWorkload:
    """The requests of a trace file, over and over.

    Args:
        trace: see `trimtab.replay.trace`.
        rate: mean requests/s that it is brought to; None leaves its own.

    Raises:
        InputError: the trace cannot be read.
    """
    try:
        requests = read_trace(trace)
    except TraceError as error:
        raise InputError(str(error)) from None
    factor = 1.0 if rate is None else fit_rate(requests, rate, 1.0)
    return RecordedWorkload(
        times=np.array([request.arrival_s for request in requests]) / factor,
        prompts=np.array([request.prompt_tokens for request in requests], dtype=np.int64),
        outputs=np.array([request.output_tokens for request in requests], dtype=np.int64),
    )
