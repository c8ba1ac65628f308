"""What is wrong with a simulated engine now: everything that a scenario can change."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from engine.simulation.routing.popularity import DOMAINS

Floats = npt.NDArray[np.float64]


class Outage(StrEnum):
    """Telemetry that does not arrive: lost, or late."""

    NONE = "none"
    LOSE = "lose"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Forced:
    """An expert that tokens of any bias select with this chance; `layer` None is every layer."""

    expert: int
    chance: float
    layer: int | None = None


@dataclass(frozen=True, slots=True)
class Regulator:
    """An online bias regulator that misbehaves.

    Attributes:
        sign: 1 raises the bias of experts below the mean (right), -1 is the wrong sign.
        speed: step of one update.
        update_tokens: tokens between two updates.
        lag_seconds: age of the load that it acts on.
        clamp: largest |bias - last known good|, 0 for none.
    """

    sign: int = -1
    speed: float = 1e-3
    update_tokens: int = 2048
    lag_seconds: float = 0.0
    clamp: float = 0.0


@dataclass
class Conditions:
    """Faults and traffic in force; plain by default.

    Attributes:
        mix: [D], share of the tokens by traffic domain.
        rate, prompt: multiply the request rate and prompt lengths.
        slow: rank → times as long as it computes. slow_link: rank → times as long as its link.
        forced: experts with a chance of their own.
        regulator: one that runs, whatever `bias_update` says, until the bias is rolled back.
        outage: of telemetry. clock_offset: seconds that the engine's clock is ahead.
        down: the process is not running.
    """

    mix: Floats = field(default_factory=lambda: np.array([1.0] + [0.0] * (DOMAINS - 1)))
    rate: float = 1.0
    prompt: float = 1.0
    slow: dict[int, float] = field(default_factory=dict)
    slow_link: dict[int, float] = field(default_factory=dict)
    forced: tuple[Forced, ...] = ()
    regulator: Regulator | None = None
    outage: Outage = Outage.NONE
    clock_offset: float = 0.0
    down: bool = False

    @property
    def is_plain_routing(self) -> bool:
        """Whether tokens are routed as in healthy traffic."""
        return not self.forced and float(self.mix[0]) == 1.0

    def slowest(self) -> float:
        """Times as long as the slowest rank computes."""
        return max(self.slow.values(), default=1.0)

    def slowest_link(self) -> float:
        """Times as long as the slowest link takes."""
        return max(self.slow_link.values(), default=1.0)


def with_forced(selection: Floats, forced: tuple[Forced, ...], top_k: int) -> Floats:
    """Selection [L, E] with forced experts; the others share what is left of k."""
    if not forced:
        return selection
    fixed = np.full(selection.shape, np.nan)
    for each in forced:
        rows = slice(None) if each.layer is None else each.layer
        fixed[rows, each.expert] = each.chance
    free = np.isnan(fixed)
    rest = np.where(free, selection, 0.0)
    room = top_k - np.where(free, 0.0, fixed).sum(axis=1, keepdims=True)
    return np.where(free, rest * (room / rest.sum(axis=1, keepdims=True)), fixed)
