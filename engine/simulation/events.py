"""What a scenario can do to an engine, each at a time on the scenario's clock. Data only."""

from typing import Annotated, Literal

from pydantic import Field

from contract.model import ContractModel

Seconds = Annotated[float, Field(ge=0)]
FOREVER = 1e12


class Event(ContractModel):
    """Begins at `at` seconds and holds for `seconds`."""

    at: Seconds
    seconds: Seconds = FOREVER

    def active(self, now: float) -> bool:
        """Whether it holds at `now`."""
        return self.at <= now < self.at + self.seconds


class BiasRamp(Event):
    """The live bias of some experts rises linearly to `relative`, until it is rolled back.

    Attributes:
        hot_by_rank: hot experts on each rank, from the first; the ranks after them have none.
        layers: MoE layers, None for all.
    """

    kind: Literal["bias_ramp"]
    relative: float
    hot_by_rank: tuple[int, ...]
    layers: tuple[int, ...] | None = None


class BiasNoise(Event):
    """Random noise of this deviation is added to the live bias of some layers at once."""

    kind: Literal["bias_noise"]
    spread: float
    layers: tuple[int, ...] | None = None


class BiasCast(Event):
    """The live bias is cast to BF16: eight bits of mantissa are left."""

    kind: Literal["bias_cast"]


class RegulatorRuns(Event):
    """An online regulator that moves the live bias until the bias is rolled back."""

    kind: Literal["regulator"]
    sign: Literal[-1, 1] = -1
    speed: float = 1e-3
    update_tokens: int = 2048
    lag_seconds: Seconds = 0.0
    clamp: float = 0.0


class TrafficShift(Event):
    """The tokens' domains go over to `mix` within `over` seconds."""

    kind: Literal["traffic_shift"]
    mix: tuple[float, float, float]
    over: Seconds = 0.0


class RateChange(Event):
    """The request rate is multiplied."""

    kind: Literal["rate"]
    factor: float = Field(gt=0)


class PromptChange(Event):
    """Prompt lengths are multiplied."""

    kind: Literal["prompt_length"]
    factor: float = Field(gt=0)


class ForcedExpert(Event):
    """Tokens select this expert with a chance of its own; 0 is a dead expert."""

    kind: Literal["forced_expert"]
    expert: int
    chance: float = Field(ge=0, le=1)
    layer: int | None = None


class SlowRank(Event):
    """A rank computes `factor` times as long."""

    kind: Literal["slow_rank"]
    rank: int
    factor: float = Field(ge=1)


class SlowLink(Event):
    """A rank's link carries 1/`factor`."""

    kind: Literal["slow_link"]
    rank: int
    factor: float = Field(ge=1)


class Restart(Event):
    """The process is gone for `seconds`, then boots anew; running requests are lost."""

    kind: Literal["restart"]
    seconds: Seconds = 30.0


class TelemetryOutage(Event):
    """Frames are lost, or held back and delivered together at the end."""

    kind: Literal["telemetry"]
    mode: Literal["lose", "hold"]


class ClockSkew(Event):
    """The engine's wall clock is `offset` seconds ahead."""

    kind: Literal["clock"]
    offset: float


AnyEvent = Annotated[
    BiasRamp | BiasNoise | BiasCast | RegulatorRuns | TrafficShift | RateChange | PromptChange
    | ForcedExpert | SlowRank | SlowLink | Restart | TelemetryOutage | ClockSkew,
    Field(discriminator="kind"),
]  # fmt: skip
