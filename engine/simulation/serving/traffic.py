"""Requests that arrive: a fitted process, or a recorded trace that repeats.

Fitted (`trimtab.bench.routing_tables` refits): prompt and output lengths lognormal, to Azure 2023
(conversation, code) and Mooncake; arrivals in a tick negative binomial, whose variance over mean is
the squared inter-arrival CV; the day's shape to a DeepSeek-R1 service (ServeGen), two harmonics.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lognormal prompt and output lengths: mean and deviation of the logarithm, and the largest."""

    prompt_mean: float
    prompt_spread: float
    output_mean: float
    output_spread: float
    most: int = 16_384


LENGTHS: Mapping[str, Lengths] = MappingProxyType(
    {
        "conversation": Lengths(6.66, 0.99, 4.95, 0.87),
        "code": Lengths(6.99, 1.35, 2.78, 0.84),
        "long": Lengths(8.77, 1.20, 5.34, 1.37, 131_072),
    }
)
"""Fitted: Azure 2023 conversation and code, Mooncake conversation."""
ARRIVAL_CV = {"conversation": 1.1, "code": 12.0, "deepseek-r1": 2.3}
"""Inter-arrival CV. The first two are measured, the third is weighted by client rate (ServeGen)."""
DAY_SHAPE = ((0.463, 0.153), (0.239, 0.002))
"""(cosine, sine) of the first two harmonics of the day; fitted to ServeGen's hourly rates."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests of one tick: seconds after its start, prompt and output tokens."""

    offsets: Floats
    prompts: npt.NDArray[np.int64]
    outputs: npt.NDArray[np.int64]


class Workload(Protocol):
    """Gives the requests of a tick."""

    def arrivals(
        self,
        generator: np.random.Generator,
        at: float,
        seconds: float,
        *,
        rate: float,
        prompt: float,
    ) -> Arrivals:
        """Requests of [at, at + seconds); `rate` and `prompt` multiply rate and prompt lengths."""
        ...  # fmt: skip


@dataclass(frozen=True, slots=True)
class FittedWorkload:
    """A process with fitted lengths and burstiness.

    Attributes:
        per_second: mean request rate.
        lengths: of prompts and outputs.
        arrival_cv: inter-arrival CV.
        daily: share of the fitted day's shape, 0 for a flat rate.
        fixed_lengths: every request has the mean length; for scenarios that must be exact.
    """

    per_second: float
    lengths: Lengths = LENGTHS["conversation"]
    arrival_cv: float = 1.1
    daily: float = 0.0
    fixed_lengths: tuple[int, int] | None = None

    def arrivals(
        self, generator: np.random.Generator, at: float, seconds: float, *, rate: float,
        prompt: float,
    ) -> Arrivals:  # fmt: skip
        """Requests of one tick."""
        mean = self.per_second * rate * seconds * day_factor(at, self.daily)
        burst = self.arrival_cv**2
        if burst > 1.0 and mean > 0:
            shape = mean / (burst - 1.0)
            mean *= generator.gamma(shape) / shape
        count = int(generator.poisson(mean))
        offsets = np.sort(generator.random(count)) * seconds
        if self.fixed_lengths is not None:
            prompts = np.full(count, max(1, round(self.fixed_lengths[0] * prompt)))
            return Arrivals(offsets, prompts, np.full(count, self.fixed_lengths[1]))
        lengths = self.lengths
        prompts = _lognormal(generator, count, lengths.prompt_mean, lengths.prompt_spread)
        outputs = _lognormal(generator, count, lengths.output_mean, lengths.output_spread)
        return Arrivals(
            offsets, np.clip(np.rint(prompts * prompt), 1, lengths.most).astype(np.int64),
            np.clip(np.rint(outputs), 1, lengths.most).astype(np.int64),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordedWorkload:
    """A trace that starts over when it ends. `times` is sorted, in seconds from its start."""

    times: Floats
    prompts: npt.NDArray[np.int64]
    outputs: npt.NDArray[np.int64]

    @property
    def seconds(self) -> float:
        """After so long it starts over."""
        return float(self.times[-1]) + 1.0

    def arrivals(
        self, generator: np.random.Generator, at: float, seconds: float, *, rate: float,  # noqa: ARG002 - a trace has no luck
        prompt: float,
    ) -> Arrivals:  # fmt: skip
        """Requests of one tick of the repeated trace, `rate` times as fast."""
        length = self.seconds
        start, end = at * rate, (at + seconds) * rate
        lap = math.floor(start / length)
        found: list[tuple[Floats, npt.NDArray[np.int64]]] = []
        while lap * length < end:
            shifted = self.times + lap * length
            chosen = np.flatnonzero((shifted >= start) & (shifted < end))
            found.append(((shifted[chosen] - start) / rate, chosen))
            lap += 1
        index = np.concatenate([chosen for _, chosen in found])
        prompts = np.maximum(1, np.rint(self.prompts[index] * prompt)).astype(np.int64)
        offsets = np.concatenate([offset for offset, _ in found])
        return Arrivals(offsets, prompts, np.maximum(1, self.outputs[index]))


def day_factor(at: float, share: float) -> float:
    """Rate over its mean at `at` seconds of a day."""
    if share == 0:
        return 1.0
    angle = 2.0 * math.pi * at / DAY
    wave = sum(
        cosine * math.cos(n * angle) + sine * math.sin(n * angle)
        for n, (cosine, sine) in enumerate(DAY_SHAPE, start=1)
    )
    return max(0.05, 1.0 + share * wave)


def _lognormal(generator: np.random.Generator, count: int, mean: float, spread: float) -> Floats:
    drawn: Floats = np.exp(mean + spread * generator.standard_normal(count))
    return drawn
