"""The faults that can be injected, what each does, and its parameters with their bounds.

`surge` and `long-prompts` are made by whoever sends the load (`trimtab replay`): here they have
their names and parameters, so that every part spells them alike.
"""

from dataclasses import dataclass
from enum import StrEnum


class FaultSide(StrEnum):
    """Who makes a fault."""

    ENGINE = "engine"
    LOAD = "load"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of a fault: default, and bounds that include their ends."""

    default: float
    least: float
    most: float
    meaning: str


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """One fault."""

    name: str
    side: FaultSide
    meaning: str
    parameters: dict[str, Parameter]


WRONG_SIGN = "wrong-sign"
BIAS_RAMP = "bias-ramp"
SLOW_RANK = "slow-rank"
SURGE = "surge"
LONG_PROMPTS = "long-prompts"

FAULTS: dict[str, FaultSpec] = {
    spec.name: spec
    for spec in (
        FaultSpec(
            WRONG_SIGN, FaultSide.ENGINE,
            "a bias regulator with the wrong sign: busy experts get busier, update by update",
            {
                "update_speed": Parameter(1e-3, 1e-6, 0.1, "change of a bias in one update"),
                "updates_per_second": Parameter(8.0, 0.1, 100.0, "updates of the regulator"),
                "min_tokens": Parameter(32, 1, 1e6, "group tokens that an update waits for"),
            },
        ),
        FaultSpec(
            BIAS_RAMP, FaultSide.ENGINE,
            "the bias of contiguous experts rises steadily to a plateau",
            {
                "height": Parameter(0.3, -10.0, 10.0, "what is added in the end"),
                "seconds": Parameter(25.0, 0.1, 3600.0, "how long the rise takes"),
                "first_expert": Parameter(0, 0, 4095, "first of the experts"),
                "num_experts": Parameter(20, 1, 4096, "how many experts"),
            },
        ),
        FaultSpec(
            SLOW_RANK, FaultSide.ENGINE,
            "one rank pauses before every step, its peers wait for it",
            {
                "rank": Parameter(0, 0, 1023, "the slow rank"),
                "pause_seconds": Parameter(0.02, 0.0, 2.0, "pause before each step"),
            },
        ),
        FaultSpec(
            SURGE, FaultSide.LOAD, "requests arrive several times as fast",
            {
                "rate_factor": Parameter(4.0, 1.0, 100.0, "times the trace's rate"),
                "seconds": Parameter(30.0, 1.0, 3600.0, "how long"),
            },
        ),
        FaultSpec(
            LONG_PROMPTS, FaultSide.LOAD, "a storm of long prompts beside the usual traffic",
            {
                "rate_share": Parameter(0.3, 0.001, 100.0, "long prompts for each usual request"),
                "prompt_tokens": Parameter(1500, 1, 1e6, "tokens of each"),
                "seconds": Parameter(25.0, 1.0, 3600.0, "how long"),
            },
        ),
    )
}  # fmt: skip

ENGINE_FAULTS: frozenset[str] = frozenset(
    name for name, spec in FAULTS.items() if spec.side is FaultSide.ENGINE
)
