"""Tables of the history, from 1 s frames to hourly sums (`docs/durability.md` says what is kept).

The large ones (`load_chunk`, `load_rollup`, `layer_summary`) are range-partitioned by `t0` on
PostgreSQL; `controlplane/history/partitions.py` makes and drops the partitions. Blob tables have a
rowid on SQLite: without one they write slower and are larger. `layer_summary` has none: its rows
are small, and a layer's series then lies in one place.
"""

from typing import Any

from sqlalchemy import Boolean, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.db.base import AutoId, Base
from controlplane.db.forgiving_json import ForgivingJson

_BY_T0 = {"postgresql_partition_by": "RANGE (t0)"}
_BY_TIER = {"postgresql_partition_by": "RANGE (tier, t0)"}


class LoadRing(Base):
    """The last 1 s frames of each engine, as received; `slot` = ordinal mod ring size."""

    __tablename__ = "load_ring"
    __table_args__ = (
        Index("ix_load_ring_engine_started", "engine_id", "started"),
        Index("uq_load_ring_frame", "engine_id", "boot_id", "sequence", unique=True),
        Index(
            "ix_load_ring_unsealed", "engine_id", "ordinal", "started",
            sqlite_where=text("sealed = 0"), postgresql_where=text("NOT sealed"),
        ),
    )  # fmt: skip

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    slot: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    ordinal: Mapped[int]
    boot_id: Mapped[str] = mapped_column(String(64))
    sequence: Mapped[int]
    started: Mapped[float]
    interval_seconds: Mapped[float]
    sealed: Mapped[bool] = mapped_column(Boolean)
    payload: Mapped[bytes]


class EngineBoot(Base):
    """One run of an engine: from which sequence on its frames came, and how far.

    `last_started` and `last_ended` are of the frame with the highest sequence, by its engine's
    clock, which may have been set back; `last_received` is by ours.
    `header` is of the newest frame that changed `state_key` (config, bias, placement, freeze).
    """

    __tablename__ = "engine_boot"

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    boot_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    first_started: Mapped[float]
    last_started: Mapped[float]
    last_ended: Mapped[float]
    last_received: Mapped[float]
    first_sequence: Mapped[int]
    high_sequence: Mapped[int]
    last_ordinal: Mapped[int]
    frames: Mapped[int]
    dropped_before: Mapped[int]
    state_key: Mapped[str] = mapped_column(String(128))
    header: Mapped[dict[str, Any]] = mapped_column(ForgivingJson)


class FrameGap(Base):
    """Frames of a boot that are missing: sequences `first` to `last`, inclusive."""

    __tablename__ = "frame_gap"
    __table_args__ = (Index("ix_frame_gap_engine_started", "engine_id", "started"),)

    id: Mapped[AutoId]
    engine_id: Mapped[str] = mapped_column(String(128))
    boot_id: Mapped[str] = mapped_column(String(64))
    first_sequence: Mapped[int]
    last_sequence: Mapped[int]
    started: Mapped[float]
    ended: Mapped[float]


class ConfigChange(Base):
    """A frame whose config, bias, placement or freeze differs from the frame before it."""

    __tablename__ = "config_change"
    __table_args__ = (Index("ix_config_change_engine_at", "engine_id", "at"),)

    id: Mapped[AutoId]
    engine_id: Mapped[str] = mapped_column(String(128))
    boot_id: Mapped[str] = mapped_column(String(64))
    sequence: Mapped[int]
    at: Mapped[float]
    generation: Mapped[int]
    config_hash: Mapped[str] = mapped_column(String(64))
    config: Mapped[dict[str, Any]] = mapped_column(ForgivingJson)
    configured_bias: Mapped[str | None] = mapped_column(String(64))
    live_bias: Mapped[str | None] = mapped_column(String(64))
    lkg_bias: Mapped[str | None] = mapped_column(String(64))
    placement: Mapped[str] = mapped_column(String(128))
    frozen: Mapped[bool] = mapped_column(Boolean)


class LoadChunk(Base):
    """The frames of one engine and minute, sealed; late frames make a further `part`."""

    __tablename__ = "load_chunk"
    __table_args__ = (
        Index("ix_load_chunk_t0", "t0", postgresql_using="brin"),
        _BY_T0,
    )

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    t0: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    part: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    frames: Mapped[int]
    counts: Mapped[int]
    first_ordinal: Mapped[int]
    last_ordinal: Mapped[int]
    codec: Mapped[str] = mapped_column(String(16))
    payload: Mapped[bytes]


class LoadRollup(Base):
    """The sum of an engine's frames over a tier's interval (10 s, 60 s, 3600 s)."""

    __tablename__ = "load_rollup"
    __table_args__ = (_BY_TIER,)

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    tier: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    t0: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    frames: Mapped[int]
    payload: Mapped[bytes]


class HourDue(Base):
    """An hour whose sum is missing, or lacks frames of minutes that were sealed since.

    `marks` counts these minutes: whoever sums the hour sees whether one came meanwhile.
    """

    __tablename__ = "hour_due"

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    t0: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    marks: Mapped[int]


class LayerSummary(Base):
    """One layer over one interval, in plain columns for SQL, Grafana and the UI.

    Loads are logical experts'; times are seconds, None when nothing was measured.
    """

    __tablename__ = "layer_summary"
    __table_args__ = ({**_BY_TIER, "sqlite_with_rowid": False},)

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    layer: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    tier: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    t0: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    assignments: Mapped[int]
    load_cv_ratio: Mapped[float | None]
    load_cv_debiased_ratio: Mapped[float | None]
    max_over_mean_ratio: Mapped[float | None]
    top_share_ratio: Mapped[float | None]
    hot_expert: Mapped[int | None]
    overflow: Mapped[int]
    rerouted: Mapped[int]
    spilled: Mapped[int]
    dropped: Mapped[int]
    executed: Mapped[int]
    dispatch_p50_seconds: Mapped[float | None]
    dispatch_p99_seconds: Mapped[float | None]
    combine_p50_seconds: Mapped[float | None]
    combine_p99_seconds: Mapped[float | None]


class IncidentPin(Base):
    """A span that retention skips: the flight recorder. `engine_id` None pins every engine."""

    __tablename__ = "incident_pin"
    __table_args__ = (Index("ix_incident_pin_ended", "ended"),)

    id: Mapped[AutoId]
    engine_id: Mapped[str | None] = mapped_column(String(128))
    started: Mapped[float]
    ended: Mapped[float]
    reason: Mapped[str] = mapped_column(String(512))
    actor: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[float]


class BiasSnapshot(Base):
    """A router bias version as its engine reported it; the payload outlives the engine's disk."""

    __tablename__ = "bias_snapshot"

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    bias_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    info: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(String(32))
    seen_at: Mapped[float]
    payload: Mapped[bytes | None]
