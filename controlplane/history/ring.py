"""The ring of 1 s frames: taking in a batch of frames in one transaction.

The slot of an engine's n-th frame is n mod ring size. A slot is overwritten only when the frame in
it has been sealed into a minute chunk; otherwise the new frame is refused, and its engine keeps it.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Connection, bindparam, delete, func, select, text
from sqlalchemy.orm import Session

from contract.frame import FrameHeader
from controlplane.db.upsert import execute_many, upsert
from controlplane.errors import StorageError
from controlplane.history.boot_row import note
from controlplane.history.held_starts import HeldStarts
from controlplane.history.models import ConfigChange, EngineBoot, FrameGap, LoadRing
from controlplane.history.ring_rows import write_ring
from controlplane.history.sequence import Arrival, BootSequence, Hole, can_have_made

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

BootKey = tuple[str, str]


class Outcome(StrEnum):
    """What became of a frame."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    RESET = "sequence_reset"
    JUMP = "sequence_jump"
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
    rows: list[dict[str, Any]] = []
    batch = _Batch(
        held=HeldStarts(connection, rows),
        rows=rows,
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
    """The state of a batch while its frames are taken in one by one; no I/O but by `held`."""

    boots: dict[BootKey, _Boot]
    newest: dict[str, int]
    unsealed: dict[str, int]
    ring_frames: int
    now: float
    held: HeldStarts
    rows: list[dict[str, Any]]
    changes: list[ConfigChange] = field(default_factory=list)

    def take(self, received: ReceivedFrame) -> Outcome:
        header = received.header
        engine_id = header.engine_id
        boot = self.boots.setdefault(received.boot_key, _Boot(BootSequence(), {}, ()))
        state, arrival = boot.sequence.admit(
            header.sequence, header.started_unix_seconds, header.ended_unix_seconds, self.now
        )
        if arrival is Arrival.DUPLICATE or arrival is Arrival.MISPLACED:
            return self._came_before(boot, header, arrival)
        if arrival is Arrival.BEFORE_FIRST and (
            header.started_unix_seconds >= boot.row["last_ended"]
        ):
            return Outcome.RESET
        if arrival is Arrival.AFTER_HOLE and self._is_jump(boot, header):
            return Outcome.JUMP
        ordinal = self.newest.get(engine_id, -1) + 1
        if ordinal >= self.unsealed.setdefault(engine_id, ordinal) + self.ring_frames:
            return Outcome.RING_FULL
        self.newest[engine_id] = ordinal
        self.rows.append(_ring_row(received, ordinal, ordinal % self.ring_frames))
        self.changes.extend(note(boot.row, header, ordinal, arrival, self.now))
        boot.sequence = state.with_dropped(boot.row["dropped_before"], header.interval_seconds)
        boot.row["first_sequence"] = boot.sequence.first
        return Outcome.STORED

    def _came_before(self, boot: _Boot, header: FrameHeader, arrival: Arrival) -> Outcome:
        """Sent again, a frame has the start that it had.

        Another start means that the engine began to count anew without a new boot id. Of a frame
        that the ring no longer holds this much is known: it started before the newest one.
        """
        if arrival is Arrival.DUPLICATE:
            held, started = self.held.start_of(header), header.started_unix_seconds
            if started == held or (held is None and started < boot.row["last_ended"]):
                return Outcome.DUPLICATE
        return Outcome.RESET

    def _is_jump(self, boot: _Boot, header: FrameHeader) -> bool:
        missing = header.sequence - boot.sequence.high - 1
        elapsed = self.now - boot.row.get("last_received", -math.inf)
        return not can_have_made(missing, elapsed)

    def newly_missing(self) -> dict[str, int]:
        missing: dict[str, int] = {}
        for (engine_id, _), boot in self.boots.items():
            before = sum(hole.frames for hole in boot.holes_before)
            missing[engine_id] = missing.get(engine_id, 0) + boot.sequence.missing - before
        return missing


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
