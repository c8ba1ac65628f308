"""The ring of 1 s frames: taking in a batch of frames in one transaction.

The slot of an engine's n-th frame is n mod ring size. A slot is overwritten only when the frame in
it has been sealed into a minute chunk; otherwise the new frame is refused, and its engine keeps it.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    bindparam,
    delete,
    func,
    select,
    text,
)
from sqlalchemy.orm import Session

from contract.frame import FrameHeader
from controlplane.db.upsert import execute_many, upsert
from controlplane.errors import StorageError
from controlplane.history.models import ConfigChange, EngineBoot, FrameGap, LoadRing
from controlplane.history.observed import observed_of
from controlplane.history.ring_rows import write_ring
from controlplane.history.sequence import Arrival, BootSequence, Hole

_BOOT_COLUMNS = tuple(column.name for column in EngineBoot.__table__.columns)
_UPSERT_BOOT = upsert("engine_boot", _BOOT_COLUMNS, ("engine_id", "boot_id"))
_MOVING = tuple(
    name for name in _BOOT_COLUMNS if name not in ("engine_id", "boot_id", "header", "state_key")
)
_MOVE_BOOT = text(
    f"UPDATE engine_boot SET {', '.join(f'{name} = :{name}' for name in _MOVING)}"  # noqa: S608 - names of our own
    " WHERE engine_id = :engine_id AND boot_id = :boot_id"
)
_BOOT = EngineBoot.__table__.c
_GAP = FrameGap.__table__.c
_RING = LoadRing.__table__.c
_ENGINES: BindParameter[Any] = bindparam("engines", expanding=True)
_BOOTS: BindParameter[Any] = bindparam("boots", expanding=True)
# Built once, of tables rather than mapped classes: the batch that comes several times a second only
# binds values, and what is asked for is no object.
_SELECT_BOOTS = select(*(column for column in _BOOT if column.name != "header")).where(
    _BOOT.engine_id.in_(_ENGINES), _BOOT.boot_id.in_(_BOOTS)
)
_SELECT_GAPS = (
    select(*(column for column in _GAP if column.name != "id"))
    .where(_GAP.engine_id.in_(_ENGINES), _GAP.boot_id.in_(_BOOTS))
    .order_by(_GAP.first_sequence)
)
_OLDEST_UNSEALED = (
    select(func.min(_RING.ordinal))
    .where(_RING.engine_id == _BOOT.engine_id, ~_RING.sealed)
    .correlate(EngineBoot.__table__)
    .scalar_subquery()  # one look into the index; grouped, it would walk all that is not sealed
)
_ENDS_OF_RING = (
    select(_BOOT.engine_id, func.max(_BOOT.last_ordinal), _OLDEST_UNSEALED)
    .where(_BOOT.engine_id.in_(_ENGINES))
    .group_by(_BOOT.engine_id)
)

_OLDER = (Arrival.LATE, Arrival.BEFORE_FIRST)
_SENT_BEFORE = (Arrival.DUPLICATE, Arrival.BEFORE_FIRST)

BootKey = tuple[str, str]


class Outcome(StrEnum):
    """What became of a frame."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    RESET = "sequence_reset"
    RING_FULL = "ring_full"


class ReceivedFrame(NamedTuple):
    """A frame's header, and the bytes that it came in, which were verified."""

    header: FrameHeader
    data: bytes

    @property
    def boot_key(self) -> BootKey:
        """Engine and boot."""
        return self.header.engine_id, self.header.boot_id


@dataclass(slots=True)
class _Boot:
    sequence: BootSequence
    row: dict[str, Any]
    holes_before: tuple[Hole, ...]


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of a batch: outcome of each frame, and how many frames each engine newly lacks."""

    outcomes: list[Outcome]
    newly_missing: dict[str, int]


def append(
    session: Session, frames: Sequence[ReceivedFrame], *, ring_frames: int, now: float
) -> Appended:
    """Store a batch, in order. The caller commits.

    Stores ring rows, how far each boot came, gaps, and changes of config. Every statement handles
    the whole batch, so cost per engine is a few rows.

    Raises:
        StorageError: a slot held an unsealed frame after all (the ring's size was changed).
    """
    engines = sorted({received.header.engine_id for received in frames})
    _one_writer_per_engine(session, engines)
    connection = session.connection()
    ends = connection.execute(_ENDS_OF_RING, {"engines": engines}).all()
    batch = _Batch(
        boots=_load_boots(connection, {received.boot_key for received in frames}),
        newest={engine_id: newest for engine_id, newest, _ in ends},
        unsealed={engine_id: oldest for engine_id, _, oldest in ends if oldest is not None},
        ring_frames=ring_frames,
        now=now,
    )
    outcomes = [batch.take(received) for received in frames]
    if batch.rows:
        if write_ring(session, batch.rows) != len(batch.rows):
            raise StorageError("a slot of the ring is not sealed yet; its frame is not overwritten")
        session.add_all(batch.changes)
        _save_boots(session, batch.boots)
    return Appended(outcomes, batch.newly_missing())


@dataclass(slots=True)
class _Batch:
    """The state of a batch while its frames are taken in one by one; no I/O."""

    boots: dict[BootKey, _Boot]
    newest: dict[str, int]
    unsealed: dict[str, int]
    ring_frames: int
    now: float
    rows: list[dict[str, Any]] = field(default_factory=list)
    changes: list[ConfigChange] = field(default_factory=list)

    def take(self, received: ReceivedFrame) -> Outcome:
        header = received.header
        engine_id = header.engine_id
        boot = self.boots.setdefault(received.boot_key, _Boot(BootSequence(), {}, ()))
        state, arrival = boot.sequence.admit(
            header.sequence, header.started_unix_seconds, _ended(header)
        )
        if arrival in _SENT_BEFORE:
            # Sent again, a frame has the start that it had; a later one means that the engine began
            # to count anew without a new boot id.
            if header.started_unix_seconds >= boot.row["last_ended"]:
                return Outcome.RESET
            if arrival is Arrival.DUPLICATE:
                return Outcome.DUPLICATE
        ordinal = self.newest.get(engine_id, -1) + 1
        if ordinal >= self.unsealed.setdefault(engine_id, ordinal) + self.ring_frames:
            return Outcome.RING_FULL
        self.newest[engine_id] = ordinal
        self.rows.append(_ring_row(received, ordinal, ordinal % self.ring_frames))
        self.changes.extend(_note(boot.row, header, ordinal, arrival, self.now))
        boot.sequence = state.with_dropped(boot.row["dropped_before"], header.interval_seconds)
        boot.row["first_sequence"] = boot.sequence.first
        return Outcome.STORED

    def newly_missing(self) -> dict[str, int]:
        missing: dict[str, int] = {}
        for (engine_id, _), boot in self.boots.items():
            before = sum(hole.frames for hole in boot.holes_before)
            missing[engine_id] = missing.get(engine_id, 0) + boot.sequence.missing - before
        return missing


def _ended(header: FrameHeader) -> float:
    return header.started_unix_seconds + header.interval_seconds


def _one_writer_per_engine(session: Session, engines: Sequence[str]) -> None:
    """On PostgreSQL several replicas may take in the same engine's frames."""
    if session.get_bind().dialect.name == "postgresql":
        for engine_id in engines:
            session.execute(select(func.pg_advisory_xact_lock(func.hashtext(engine_id))))


def _load_boots(connection: Connection, keys: set[BootKey]) -> dict[BootKey, _Boot]:
    named = {"engines": sorted({key[0] for key in keys}), "boots": sorted({key[1] for key in keys})}
    found = connection.execute(_SELECT_BOOTS, named).mappings()
    gaps = connection.execute(_SELECT_GAPS, named)
    holes: dict[BootKey, list[Hole]] = {}
    for gap in gaps:
        holes.setdefault((gap.engine_id, gap.boot_id), []).append(
            Hole(gap.first_sequence, gap.last_sequence, gap.started, gap.ended)
        )
    boots: dict[BootKey, _Boot] = {}
    for row in found:
        key = (row["engine_id"], row["boot_id"])
        missing = tuple(holes.get(key, ()))
        sequence = BootSequence(
            row["high_sequence"], row["last_ended"], missing, row["first_sequence"],
            row["first_started"],
        )  # fmt: skip
        boots[key] = _Boot(sequence, dict(row), missing)
    return boots


def _ring_row(received: ReceivedFrame, ordinal: int, slot: int) -> dict[str, Any]:
    header = received.header
    return {
        "engine_id": header.engine_id,
        "slot": slot,
        "ordinal": ordinal,
        "boot_id": header.boot_id,
        "sequence": header.sequence,
        "started": header.started_unix_seconds,
        "interval_seconds": header.interval_seconds,
        "sealed": False,
        "payload": received.data,
    }


def _note(
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
    for name, value in (
        ("last_started", header.started_unix_seconds), ("last_ended", _ended(header)),
    ):  # fmt: skip
        row[name] = max(row.get(name, value), value)
    if arrival in _OLDER:
        return []
    row.update(engine_id=header.engine_id, boot_id=header.boot_id, high_sequence=header.sequence)
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


def _save_boots(session: Session, boots: Mapping[BootKey, _Boot]) -> None:
    rows = [boot.row for boot in boots.values() if boot.row]
    changed = [{**row, "header": json.dumps(row["header"])} for row in rows if "header" in row]
    moved = [row for row in rows if "header" not in row]
    if changed:
        execute_many(session, _UPSERT_BOOT, changed)
    if moved:
        execute_many(session, _MOVE_BOOT, moved)
    for (engine_id, boot_id), boot in boots.items():
        if boot.sequence.holes == boot.holes_before:
            continue
        session.execute(
            delete(FrameGap).where(FrameGap.engine_id == engine_id, FrameGap.boot_id == boot_id)
        )
        session.add_all(
            FrameGap(
                engine_id=engine_id, boot_id=boot_id, first_sequence=hole.first,
                last_sequence=hole.last, started=hole.started, ended=hole.ended,
            )
            for hole in boot.sequence.holes
        )  # fmt: skip
