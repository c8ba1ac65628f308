"""Fitting a trace of a large service to the engine at hand: lengths first, then the rate."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trimtab.replay.trace import TraceRequest


@dataclass(frozen=True, slots=True)
class Scaling:
    """Factors on a trace; printed wherever a scaled trace is used.

    Attributes:
        rate: arrivals come this many times as fast as in the trace.
        length: prompts and outputs are this many times as long.
    """

    rate: float = 1.0
    length: float = 1.0

    def apply(self, requests: Sequence[TraceRequest], context_tokens: int) -> list[TraceRequest]:
        """The scaled trace; every request has at least one token in and out, and fits."""
        return [self._one(request, context_tokens) for request in requests]

    def _one(self, request: TraceRequest, context_tokens: int) -> TraceRequest:
        output = min(max(1, round(request.output_tokens * self.length)), context_tokens // 2)
        if request.prompt is not None:
            prompt = min(request.prompt_tokens, context_tokens - output)
        else:
            prompt = max(1, round(request.prompt_tokens * self.length))
            prompt = min(prompt, context_tokens - output)
        return TraceRequest(request.arrival_s / self.rate, prompt, output, request.prompt)


def fit_length(requests: Sequence[TraceRequest], target_tokens: float) -> float:
    """The factor that brings the mean total length of a request to `target_tokens`, at most 1."""
    totals = [request.prompt_tokens + request.output_tokens for request in requests]
    return min(1.0, target_tokens / max(1.0, float(np.mean(totals))))


def fit_rate(requests: Sequence[TraceRequest], capacity_per_s: float, share: float) -> float:
    """The factor that brings the mean arrival rate to `share` of `capacity_per_s` requests/s."""
    span = requests[-1].arrival_s - requests[0].arrival_s
    if span <= 0 or len(requests) < 2:
        return 1.0
    mean_rate = (len(requests) - 1) / span
    return share * capacity_per_s / mean_rate
