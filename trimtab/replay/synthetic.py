"""A synthetic trace for those who have none: Poisson arrivals, lognormal lengths, a fixed seed."""

import numpy as np

from trimtab.replay.trace import TraceRequest

MEAN_RATE = 4.0
"""Arrivals a second before scaling."""
_PROMPT_MEDIAN, _PROMPT_SIGMA = 160.0, 0.5
_OUTPUT_MEDIAN, _OUTPUT_SIGMA = 48.0, 0.4


def synthetic_trace(seconds: float, seed: int = 0) -> list[TraceRequest]:
    """Arrivals over `seconds` at `MEAN_RATE` a second; named synthetic wherever it is shown."""
    random = np.random.default_rng(seed)
    count = max(2, round(seconds * MEAN_RATE))
    arrivals = np.cumsum(random.exponential(1 / MEAN_RATE, count))
    prompts = random.lognormal(np.log(_PROMPT_MEDIAN), _PROMPT_SIGMA, count)
    outputs = random.lognormal(np.log(_OUTPUT_MEDIAN), _OUTPUT_SIGMA, count)
    first = float(arrivals[0])
    return [
        TraceRequest(float(at) - first, max(1, int(prompt)), max(2, int(output)))
        for at, prompt, output in zip(arrivals, prompts, outputs, strict=True)
    ]
