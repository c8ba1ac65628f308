"""The demo's load: a trace fitted to half the measured capacity, and storms on top of it."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.faults.names import FAULTS, LONG_PROMPTS, SURGE
from trimtab.demo.site import CONTEXT_TOKENS, Site
from trimtab.replay.client import Replayer, RequestResult, Target
from trimtab.replay.prompts import PromptSource
from trimtab.replay.run import fit, served_model
from trimtab.replay.scaling import Scaling
from trimtab.replay.synthetic import synthetic_trace
from trimtab.replay.trace import TraceRequest, read_trace

SHARE_OF_CAPACITY = 0.5
SYNTHETIC_SECONDS = 600.0
STORM_OUTPUT_TOKENS = 16
MIX = {"code": 0.5, "prose": 0.4, "table": 0.1}
"""Share of each text domain: tables alone skew a healthy router (tau up to 1.5)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent: where it comes from, how it was scaled, and the scaled requests."""

    trace: str
    scaling: Scaling
    requests: tuple[TraceRequest, ...]

    @property
    def rate(self) -> float:
        """Mean arrivals a second."""
        span = self.requests[-1].arrival_s
        return len(self.requests) / span if span > 0 else 0.0


class Traffic:
    """Open-loop load in the background of one event loop."""

    def __init__(self, site: Site, seed: int = 0) -> None:
        self._target = Target(site.engine_url, "", site.tokens.inference)
        self._seed = seed
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._replayers: list[Replayer] = []
        self._started = 0.0

    async def plan(self, trace: Path | None) -> Plan:
        """Measure the engine's capacity, and fit the trace to half of it."""
        model, _ = await served_model(self._target)
        self._target = replace(self._target, model=model)
        if trace is None:
            name, requests = "synthetic (Poisson)", synthetic_trace(SYNTHETIC_SECONDS, self._seed)
        else:
            name, requests = trace.name, read_trace(trace)
        scaling = await fit(requests, self._target, CONTEXT_TOKENS, SHARE_OF_CAPACITY, self._seed)
        scaled = scaling.apply(requests, CONTEXT_TOKENS)
        return Plan(name, scaling, tuple(scaled))

    def start(self, plan: Plan) -> None:
        """Send the plan's requests from now on, over and over."""
        self._started = time.monotonic()
        self._send(_repeated(plan.requests), self._seed)

    def now(self) -> float:
        """Seconds since the traffic started."""
        return time.monotonic() - self._started

    def storm(self, fault: str, plan: Plan) -> float:
        """Add the load of a load-side fault; gives its length in seconds."""
        values = {name: p.default for name, p in FAULTS[fault].parameters.items()}
        seconds = values["seconds"]
        random = np.random.default_rng(self._seed)
        if fault == SURGE:
            extra = [
                replace(request, arrival_s=request.arrival_s / (values["rate_factor"] - 1))
                for request in plan.requests
            ]
            requests = list(itertools.takewhile(lambda r: r.arrival_s < seconds, extra))
        elif fault == LONG_PROMPTS:
            # A share of what was fitted to this machine: as hard on a fast one as on a slow one.
            count = max(1, round(seconds * values["rate_share"] * plan.rate))
            arrivals = np.sort(random.uniform(0, seconds, count))
            tokens = min(int(values["prompt_tokens"]), CONTEXT_TOKENS - STORM_OUTPUT_TOKENS)
            requests = [TraceRequest(float(at), tokens, STORM_OUTPUT_TOKENS) for at in arrivals]
        else:
            raise ValueError(
                f"fault {fault!r} is not made by the load; use {SURGE}, {LONG_PROMPTS}"
            )
        self._send(requests, self._seed + 1)
        return seconds

    async def stop(self) -> None:
        """Send nothing more, and wait for what is under way."""
        self._stop.set()
        await asyncio.gather(*self._tasks)

    def results(self, start: float, end: float) -> list[RequestResult]:
        """Requests that were due in [start, end) seconds since the traffic started."""
        found: list[RequestResult] = []
        for replayer in self._replayers:
            shift = replayer.started - self._started
            found += [r for r in replayer.results if start <= r.due_s + shift < end]
        return found

    def _send(self, requests: Sequence[TraceRequest], seed: int) -> None:
        replayer = Replayer(self._target, PromptSource(seed, MIX))
        self._replayers.append(replayer)
        self._tasks.append(asyncio.create_task(replayer.run(requests, self._stop)))


def _repeated(requests: Sequence[TraceRequest]) -> list[TraceRequest]:
    """Enough repetitions of a trace for the longest run, one after the other."""
    span = requests[-1].arrival_s + 1.0
    rounds = max(1, int(SYNTHETIC_SECONDS // span) + 1)
    return [
        replace(request, arrival_s=request.arrival_s + turn * span)
        for turn in range(rounds)
        for request in requests
    ]
