"""How far a boot came, and what it said of its config, brought up to each frame. Pure."""

import zlib
from typing import Any

from contract.frame import FrameHeader
from controlplane.history.models import ConfigChange
from controlplane.history.observed import observed_of
from controlplane.history.sequence import Arrival


def note(
    row: dict[str, Any], header: FrameHeader, ordinal: int, arrival: Arrival, now: float
) -> list[ConfigChange]:
    """Bring a boot's row up to a frame; gives the change of config when there is one."""
    row["frames"] = row.get("frames", 0) + 1
    row["last_ordinal"] = ordinal
    row["last_received"] = now
    row["dropped_before"] = max(row.get("dropped_before", 0), header.dropped_before)
    row["first_started"] = min(
        row.get("first_started", header.started_unix_seconds), header.started_unix_seconds
    )
    if arrival in (Arrival.LATE, Arrival.BEFORE_FIRST):
        return []
    row.update(
        engine_id=header.engine_id, boot_id=header.boot_id, high_sequence=header.sequence,
        last_started=header.started_unix_seconds, last_ended=header.ended_unix_seconds,
    )  # fmt: skip
    key = state_key(header)
    if row.get("state_key") == key:
        return []
    row.update(state_key=key, header=header.model_dump(mode="json"))
    # A scraped engine says nothing of its config: its frames' is filled in, and no change of it.
    return [config_change(header)] if observed_of(header) is None else []


def config_change(header: FrameHeader) -> ConfigChange:
    """What a frame says of the engine's config."""
    return ConfigChange(
        engine_id=header.engine_id, boot_id=header.boot_id, sequence=header.sequence,
        at=header.started_unix_seconds, generation=header.config_generation,
        config_hash=header.config.content_hash(), config=header.config.model_dump(mode="json"),
        configured_bias=header.configured_bias, live_bias=header.live_bias,
        lkg_bias=header.lkg_bias, placement=header.placement, frozen=header.frozen,
    )  # fmt: skip


def state_key(header: FrameHeader) -> str:
    """What a change of config is noticed by; at most 128 characters."""
    parts = (
        header.config_generation, zlib.crc32(header.config.model_dump_json().encode()),
        (header.configured_bias or "-")[:16], (header.live_bias or "-")[:16],
        (header.lkg_bias or "-")[:16], header.placement[:16], int(header.frozen),
    )  # fmt: skip
    return "/".join(str(part) for part in parts)
