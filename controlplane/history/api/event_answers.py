"""What the routes over events answer, and what a pin is made of."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from controlplane.history.api.dependencies import Answer
from controlplane.moment import Moment


class Change(Answer):
    """The config, bias, placement or freeze that a frame said differently from the one before."""

    id: int = Field(description="Grows with the time of arrival")
    at: float = Field(description="Start of the frame, unix seconds")
    boot_id: str = Field(description="Run of the engine")
    sequence: int = Field(description="Sequence of the frame in its boot")
    generation: int = Field(description="Config generation")
    config_hash: str = Field(description="Hash of the runtime config")
    config: dict[str, Any] = Field(description="The runtime config; units stand in its names")
    configured_bias: str | None = Field(description="Hash of the bias that the config asks for")
    live_bias: str | None = Field(description="Hash of the bias that routes")
    lkg_bias: str | None = Field(description="Hash of the last known good bias")
    placement: str = Field(description="Which placement of experts on ranks")
    frozen: bool = Field(description="Whether the engine refuses changes")


class Timeline(Answer):
    """Changes by time of arrival."""

    changes: list[Change] = Field(description="Oldest first")
    cursor: int | None = Field(description="Send as `cursor` to go on; null on the last page")


class MissingFrames(Answer):
    """Frames of a boot that are missing."""

    engine_id: str = Field(description="The engine")
    boot_id: str = Field(description="Run of the engine")
    first_sequence: int = Field(description="First missing sequence of the boot")
    last_sequence: int = Field(description="Last missing sequence, inclusive")
    started: float = Field(description="Start of the time that is missing, unix seconds")
    ended: float = Field(description="End of the time that is missing, unix seconds")


class GapList(Answer):
    """Missing frames that touch the span."""

    frames_missing: int = Field(description="Frames in all of these gaps")
    gaps: list[MissingFrames] = Field(description="Oldest first")


class Boot(Answer):
    """One run of an engine; of an observe-only one, the time that it was read without a break."""

    boot_id: str = Field(description="New at every start of the engine")
    first_started: float = Field(description="Earliest start of a frame, unix seconds")
    last_ended: float = Field(description="Latest end of a frame, unix seconds")
    frames: int = Field(description="Frames that were stored")
    first_sequence: int = Field(description="Lowest sequence that came")
    high_sequence: int = Field(description="Highest sequence that came")
    dropped_before: int = Field(description="Frames that the engine's buffer says it dropped")
    header: dict[str, Any] = Field(
        description="Header of the newest frame that changed config, bias, placement or freeze; "
        "units stand in its names. Of an observe-only engine it has what was measured"
    )


class Snapshot(Answer):
    """A stored router bias, without its values."""

    bias_hash: str = Field(description="Hash of its values")
    status: str = Field(description="What it is to the engine")
    seen_at: float = Field(description="When it was last reported, unix seconds")
    stored: bool = Field(description="Whether its values are kept here too")
    info: dict[str, Any] = Field(description="What the engine said of it; units stand in its names")


class NewPin(BaseModel):
    """A span to keep beyond retention."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    engine_id: str | None = Field(
        default=None, max_length=128, description="An engine that sent frames; null is every engine"
    )
    started: Moment = Field(description="Unix seconds, or ISO 8601 with an offset")
    ended: Moment = Field(description="Unix seconds, or ISO 8601 with an offset; after `started`")
    reason: str = Field(min_length=1, max_length=512, description="Why it is kept")


class MadePin(Answer):
    """A new pin."""

    id: int = Field(description="What it is removed by")


class PinnedSpan(Answer):
    """A span that retention skips."""

    id: int = Field(description="What it is removed by")
    engine_id: str | None = Field(description="The engine; null is every engine")
    started: float = Field(description="Unix seconds")
    ended: float = Field(description="Unix seconds")
    reason: str = Field(description="Why it is kept")
    actor: str = Field(description="Who pinned it")
    created_at: float = Field(description="When it was pinned, unix seconds")
