"""A policy: what may be moved, how far, how often, and how a change is judged. YAML in and out."""

from enum import StrEnum
from typing import Annotated, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from contract.runtime_config import CAPACITY_LADDER, CHUNK_SIZES, MAX_CONCURRENCY_CEILING, Rung
from contract.written import Written
from controlplane.detectors.settings import DetectorSettings
from controlplane.errors import InvalidInputError
from controlplane.policy.knob import Knob, Mode
from controlplane.slo.settings import SloSettings
from controlplane.slo.yaml_error import in_one_line

POLICY_FORMAT = 1


class Strategy(StrEnum):
    """How a policy decides."""

    GOVERNED = "governed"
    SEED_LITERAL = "seed-literal"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KnobRules(_Part):
    """How far and how often one knob may be moved.

    Attributes:
        mode: off, shadow, approve or auto.
        act_cooldown_seconds: since the knob's last change, before another act.
        relax_cooldown_seconds: since the knob's last change, before a step back to the baseline.
        changes_per_hour, changes_per_day, reversals_per_hour: the flap budget.
    """

    mode: Mode
    act_cooldown_seconds: float = Field(ge=0)
    relax_cooldown_seconds: float = Field(ge=0)
    changes_per_hour: int = Field(default=6, ge=1)
    changes_per_day: int = Field(default=20, ge=1)
    reversals_per_hour: int = Field(default=2, ge=0)


class CapacityRules(_Part):
    """Capacity factor: the smallest rung that holds `target_ratio`, in bounded steps.

    Between `deadband_ratio` and `target_ratio` nothing moves: a lower rung must hold the former.
    `tpot_cost_ratio` is the TPOT that one rung is taken to cost (padding and exchanged bytes).
    """

    target_ratio: float = Field(default=0.04, gt=0, lt=1)
    deadband_ratio: float = Field(default=0.03, gt=0, lt=1)
    two_rungs_above: float = Field(default=0.15, gt=0, lt=1)
    lowest: Rung = CAPACITY_LADDER[0]
    highest: Rung = CAPACITY_LADDER[-1]
    tpot_cost_ratio: float = Field(default=0.05, ge=0, lt=1)

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if self.deadband_ratio > self.target_ratio:
            raise ValueError(
                f"deadband_ratio {self.deadband_ratio:g} is above target_ratio "
                f"{self.target_ratio:g}"
            )
        if CAPACITY_LADDER.index(self.lowest) > CAPACITY_LADDER.index(self.highest):
            raise ValueError(f"lowest {self.lowest} is above highest {self.highest}")
        return self


class ChunkRules(_Part):
    """Chunk size: powers of two between the bounds, one step at a time.

    Attributes:
        minimum, maximum: bounds of the governor, inside the contract's.
        tpot_room_ratio: room that TPOT needs before chunks may grow for TTFT.
        prefill_share: share of prefill tokens above which steps are mixed enough to matter.
        queue_share: share of TTFT spent in queue above which short prompts wait behind long ones.
    """

    minimum: int = 256
    maximum: int = 2048
    tpot_room_ratio: float = Field(default=0.2, ge=0, lt=1)
    prefill_share: float = Field(default=0.3, ge=0, le=1)
    queue_share: float = Field(default=0.5, ge=0, le=1)

    @model_validator(mode="after")
    def _is_listed_and_ordered(self) -> Self:
        for name, value in (("minimum", self.minimum), ("maximum", self.maximum)):
            if value not in CHUNK_SIZES:
                sizes = ", ".join(str(size) for size in CHUNK_SIZES)
                raise ValueError(f"{name} {value} is not a chunk size; use one of {sizes}")
        if self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} is above maximum {self.maximum}")
        return self


class ConcurrencyRules(_Part):
    """Concurrency: × `factor` on a breach of TPOT, back by a share of the baseline."""

    factor: float = Field(default=0.8, gt=0, lt=1)
    floor: int = Field(default=1, ge=1, le=MAX_CONCURRENCY_CEILING)
    relax_ratio: float = Field(default=0.05, gt=0, le=1)


class VerifyPlan(_Part):
    """How a change is judged after it has settled.

    Attributes:
        seconds: length of the verification; extended once when it cannot tell.
        min_requests, min_assignments: evidence that a row needs on either side.
        guard_ratio: how much worse a guard may become (non-inferiority).
        confidence: of one-sided bounds.
        share_distance: total variation within which live and what-if shares agree.
    """

    seconds: float = Field(default=120.0, gt=0, le=3600)
    min_requests: int = Field(default=40, ge=1)
    min_assignments: int = Field(default=16_384, ge=1)
    guard_ratio: float = Field(default=0.10, gt=0, lt=1)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    share_distance: float = Field(default=0.02, gt=0, lt=1)


class Policy(_Part):
    """One version of a policy. Everything that a decision depends on beside the snapshot.

    Attributes:
        format: version of this layout; name, version, description: of this policy.
        tick_seconds: how often it is evaluated.
        knobs: rules by knob; an absent knob is off.
        budget_floor_ratio: error budget below which nothing is relaxed; None relaxes regardless.
        lease_seconds: time to live of a deviation from the baseline on the engine.
        settle_seconds, settle_requests: a change is judged after so many seconds, or so many p99
            request durations, whichever is longer.
        approval_seconds: life of a request for approval.
        quarantine_seconds: first quarantine of a change that failed.
    """

    format: int = POLICY_FORMAT
    name: Annotated[
        str,
        Field(min_length=1, max_length=64),
        Written(r"^[a-z0-9][a-z0-9-]*$", "have only a-z 0-9 - with a letter or a digit first"),
    ]
    version: int = Field(default=1, ge=1)
    description: str = Field(default="", max_length=1000)
    strategy: Strategy = Strategy.GOVERNED
    tick_seconds: float = Field(default=5.0, gt=0, le=600)
    knobs: dict[Knob, KnobRules]
    capacity: CapacityRules = CapacityRules()
    chunk: ChunkRules = ChunkRules()
    concurrency: ConcurrencyRules = ConcurrencyRules()
    budget_floor_ratio: float | None = Field(default=0.25, ge=0, lt=1)
    lease_seconds: float = Field(default=900.0, gt=0, le=3600)
    settle_seconds: float = Field(default=30.0, ge=0, le=3600)
    settle_requests: float = Field(default=2.0, ge=0, le=100)
    approval_seconds: float = Field(default=1800.0, gt=0)
    quarantine_seconds: float = Field(default=3600.0, gt=0)
    verify: VerifyPlan = VerifyPlan()
    detectors: DetectorSettings = DetectorSettings()
    slo: SloSettings = SloSettings()

    @model_validator(mode="after")
    def _format_is_known(self) -> Self:
        if self.format != POLICY_FORMAT:
            raise ValueError(f"format {self.format} is not known; this reads {POLICY_FORMAT}")
        return self

    def mode(self, knob: Knob) -> Mode:
        """The mode of a knob; off where the policy does not name it."""
        rules = self.knobs.get(knob)
        return Mode.OFF if rules is None else rules.mode


def load_policy(text: str) -> Policy:
    """Read a policy from YAML.

    Raises:
        InvalidInputError: not YAML, or a field is unknown or out of bounds; names the first one.
    """
    try:
        body = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInputError(
            f"policy is not YAML: {in_one_line(error)}", field="policy"
        ) from error
    if not isinstance(body, dict):
        raise InvalidInputError(
            "policy must be a mapping of its fields, such as name and knobs",
            field="policy", value=type(body).__name__,
        )  # fmt: skip
    return parsed(body)


def parsed(body: object) -> Policy:
    """A policy from a JSON or YAML body.

    Raises:
        InvalidInputError: names the first field that is unknown or out of bounds.
    """
    try:
        return Policy.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "policy"
        raise InvalidInputError(
            f"policy field {field}: {first['msg'].removeprefix('Value error, ')}{_got(first)}",
            field=field, value=str(first["input"]),
        ) from error  # fmt: skip


def _got(fault: ErrorDetails) -> str:
    """The value at fault, unless it is a whole table: pydantic gives that for an absent field."""
    return "" if isinstance(fault["input"], dict) else f" (got {fault['input']!r})"


def dump_policy(policy: Policy) -> str:
    """The policy as YAML that `load_policy` reads back."""
    return yaml.safe_dump(policy.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
