"""The runtime config: every knob an operator or a governor may move on a live engine.

A config is immutable and content-addressed: `content_hash` is the SHA-256 of its canonical JSON.
The capacity factor is an exact rational written as a decimal string ("1.25"); a float product
would change ceil(C·λ) (1.5 against 1.5000000000000002 makes 4 slots of 3).
"""

import hashlib
import json
import re
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from contract.model import ContractModel

CAPACITY_LADDER: tuple[str, ...] = ("1", "1.1", "1.25", "1.5", "1.75", "2")
CHUNK_SIZES: tuple[int, ...] = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
MAX_CONCURRENCY_CEILING = 4096
CAP_MIN_CEILING = 4096
_DECIMAL = re.compile(r"[0-9]{1,4}(\.[0-9]{1,12})?")
HASH_PATTERN = r"^[0-9a-f]{64}$"


class OverflowMode(StrEnum):
    """Whether overflow is applied to the traffic or only counted (dropless engines)."""

    ENFORCED = "enforced"
    VIRTUAL = "virtual"


class OverflowPolicy(StrEnum):
    """What becomes of an assignment beyond its expert's capacity."""

    DROP = "drop"
    DROP_BY_POSITION = "drop_by_position"
    REROUTE_NEXT_BEST = "reroute_next_best"
    REROUTE_LEAST_LOADED = "reroute_least_loaded"
    SPILL = "spill"
    REROUTE_ID_ADJACENT = "reroute_id_adjacent"


class CapacityDomain(StrEnum):
    """Whether capacity is counted over the EP group or for each source rank."""

    GLOBAL = "global"
    PER_SOURCE_RANK = "per_source_rank"


class DispatchDtype(StrEnum):
    """The payload of dispatch; combine stays in the model's dtype."""

    NATIVE = "native"
    FP8_E4M3 = "fp8_e4m3"


class BiasUpdate(StrEnum):
    """The online aux-loss-free regulator."""

    OFF = "off"
    ON = "on"


def rung_text(value: object) -> object:
    """Accept 1.25, 1 or "1.25" for a rung and give the ladder's own spelling."""
    if isinstance(value, str) and value in CAPACITY_LADDER:
        return value  # what every frame says
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        # Only plain decimals: Fraction("1e999999999") would compute for hours.
        text = str(value)
        if not _DECIMAL.fullmatch(text):
            return text
        wanted = Fraction(text)
        for rung in CAPACITY_LADDER:
            if Fraction(rung) == wanted:
                return rung
        return text
    return value


def _on_ladder(value: str) -> str:
    if value not in CAPACITY_LADDER:
        ladder = ", ".join(CAPACITY_LADDER)
        raise ValueError(f"capacity_factor {value!r} is not a rung; use one of {ladder}, or null")
    return value


Rung = Annotated[str, BeforeValidator(rung_text), AfterValidator(_on_ladder)]
ContentHash = Annotated[str, Field(pattern=HASH_PATTERN)]


class RuntimeConfig(ContractModel):
    """The live knobs of one EP group.

    Attributes:
        capacity_factor: C, a rung of the ladder (1, 1.1, 1.25, 1.5, 1.75, 2); None serves
            without any capacity (dropless).
        cap_min: slots that an expert has at least, per step.
        overflow_mode: `enforced`, or `virtual` (counted, not applied).
        overflow_policy: what becomes of overflow when enforced.
        capacity_domain: over the group, or per source rank.
        chunk_size: total token budget of a step, decode tokens first; a power of two from
            128 to 16384.
        max_concurrency: running sequences of the EP group; lowering drains, never kills.
        dispatch_dtype: payload of the dispatch all-to-all.
        router_bias: content hash of a stored bias snapshot; None where the model has no bias.
        bias_update: the online regulator.
        placement: id of a stored expert placement.
    """

    capacity_factor: Rung | None = "1.25"
    cap_min: int = Field(default=8, ge=1, le=CAP_MIN_CEILING)
    overflow_mode: OverflowMode = OverflowMode.ENFORCED
    overflow_policy: OverflowPolicy = OverflowPolicy.DROP
    capacity_domain: CapacityDomain = CapacityDomain.GLOBAL
    chunk_size: int = 512
    max_concurrency: int = Field(default=64, ge=1, le=MAX_CONCURRENCY_CEILING)
    dispatch_dtype: DispatchDtype = DispatchDtype.NATIVE
    router_bias: ContentHash | None = None
    bias_update: BiasUpdate = BiasUpdate.OFF
    placement: str = Field(default="linear", min_length=1, max_length=128)

    @field_validator("chunk_size")
    @classmethod
    def _chunk_is_a_listed_power_of_two(cls, value: int) -> int:
        if value not in CHUNK_SIZES:
            sizes = ", ".join(str(size) for size in CHUNK_SIZES)
            raise ValueError(f"chunk_size {value} is not allowed; use one of {sizes}")
        return value

    @model_validator(mode="after")
    def _a_step_holds_every_decode_token(self) -> Self:
        if self.chunk_size < self.max_concurrency:
            raise ValueError(
                f"chunk_size {self.chunk_size} is below max_concurrency {self.max_concurrency}: "
                "a step could not decode every running sequence"
            )
        return self

    @property
    def capacity_fraction(self) -> Fraction | None:
        """C as an exact rational, or None when dropless."""
        return None if self.capacity_factor is None else Fraction(self.capacity_factor)

    def content_hash(self) -> str:
        """SHA-256 of the canonical JSON, 64 hex digits."""
        body = self.model_dump(mode="json")
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


KNOBS: tuple[str, ...] = tuple(RuntimeConfig.model_fields)
