"""The registry of governed engines: configured by people, never learnt from telemetry."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.auth.changes import SETTINGS, AccessChange, ChangeKind, Recorder
from controlplane.auth.models import Engine
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.engine_kind import EngineKind
from controlplane.errors import ConflictError, NotFoundError
from controlplane.settings import EngineSettings

REMEMBER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RegisteredEngine:
    """Where an engine's admin API is, and the token for it (kept out of `repr`).

    `from_settings`: the settings file names it, so only the file can drop it. Engines of another
    kind than `trimtab` are observe-only and stand in the settings alone.
    """

    engine_id: str
    url: str
    group: str
    admin_token: str = field(repr=False)
    from_settings: bool = False
    kind: EngineKind = EngineKind.TRIMTAB


class EngineRegistry:
    """Engines of the settings, and those that an administrator added.

    `record` writes each change, with its actor, in the change's own transaction. What hooks into
    `on_removed` is called in the transaction that removes an engine, with its id.
    """

    def __init__(
        self, database: Database, clock: Clock, configured: Sequence[EngineSettings],
        record: Recorder,
    ) -> None:  # fmt: skip
        self._database = database
        self._clock = clock
        self._record = record
        self._configured = {engine.id: engine for engine in configured}
        self._kept: tuple[float, dict[str, RegisteredEngine]] | None = None
        self.on_removed: list[Callable[[Session, str], None]] = []
        self._changes = 0

    def sync(self) -> None:
        """Make the rows that come from settings equal the settings. Called at start."""
        with self._database.write() as session:
            before = {row.engine_id: row for row in session.scalars(select(Engine))}
            for engine_id, row in before.items():
                if row.from_settings and engine_id not in self._configured:
                    self._dropped(session, row, SETTINGS)
            for engine in self._configured.values():
                self._follow(session, engine, before.get(engine.id))
        self._forget()

    def _follow(self, session: Session, engine: EngineSettings, row: Engine | None) -> None:
        """Make one row equal the settings; the log gets what differed."""
        if row is None:
            row = Engine(
                engine_id=engine.id, url=engine.url, engine_group=engine.group, admin_token=None,
                from_settings=True, added_at=self._clock.now(),
            )  # fmt: skip
            self._put(session, row, SETTINGS)
            return
        if (row.from_settings, row.url, row.engine_group) == (True, engine.url, engine.group):
            return
        was = row.url
        row.url, row.engine_group = engine.url, engine.group
        row.from_settings, row.admin_token = True, None
        detail = {"group": engine.group, "from_settings": True}
        self._note(session, SETTINGS, ChangeKind.ENGINE_CHANGED, engine.id, was, row.url, detail)

    def add(self, engine: RegisteredEngine, *, by: str) -> None:
        """Register an engine that the settings do not name.

        Raises:
            ConflictError: the id is taken.
        """
        with self._database.write() as session:
            if session.get(Engine, engine.engine_id) is not None:
                raise ConflictError(
                    f"engine {engine.engine_id!r} is registered",
                    field="engine_id", value=engine.engine_id,
                )  # fmt: skip
            row = Engine(
                engine_id=engine.engine_id, url=engine.url, engine_group=engine.group,
                admin_token=engine.admin_token, from_settings=False, added_at=self._clock.now(),
            )  # fmt: skip
            self._put(session, row, by)
        self._forget()

    def remove(self, engine_id: str, *, by: str) -> None:
        """Stop governing an engine; its history stays.

        Raises:
            NotFoundError: it is not registered.
            ConflictError: the settings name it.
        """
        with self._database.write() as session:
            row = session.get(Engine, engine_id)
            if row is None:
                raise NotFoundError(f"engine {engine_id!r} is not registered", field="engine_id")
            if row.from_settings:
                raise ConflictError(
                    f"engine {engine_id!r} stands in the settings: remove it there",
                    field="engine_id", value=engine_id,
                )  # fmt: skip
            self._dropped(session, row, by)
        self._forget()

    def all(self) -> list[RegisteredEngine]:
        """Every governed engine, by id. Another process's change is seen within a second."""
        return list(self._read().values())

    def get(self, engine_id: str) -> RegisteredEngine:
        """One engine.

        Raises:
            NotFoundError: it is not registered.
        """
        found = self._read().get(engine_id)
        if found is None:
            raise NotFoundError(
                f"engine {engine_id!r} is not registered", field="engine_id", value=engine_id
            )
        return found

    def _read(self) -> dict[str, RegisteredEngine]:
        """The rows by id, read at most once a second: a tick asks many times for each engine."""
        now = self._clock.monotonic()
        kept = self._kept
        if kept is not None and now - kept[0] < REMEMBER_SECONDS:
            return kept[1]
        version = self._changes
        with self._database.read() as session:
            rows = session.scalars(select(Engine).order_by(Engine.engine_id)).all()
        read = {row.engine_id: self._registered(row) for row in rows}
        if version == self._changes:  # what was read while somebody changed it is not kept
            self._kept = (now, read)
        return read

    def _forget(self) -> None:
        self._changes += 1
        self._kept = None

    def _registered(self, row: Engine) -> RegisteredEngine:
        configured = self._configured.get(row.engine_id)
        token = configured.admin_token.get_secret_value() if configured else row.admin_token or ""
        return RegisteredEngine(
            row.engine_id, row.url, row.engine_group, token, row.from_settings,
            configured.kind if configured else EngineKind.TRIMTAB,
        )  # fmt: skip

    def _put(self, session: Session, row: Engine, by: str) -> None:
        session.add(row)
        detail = {"group": row.engine_group, "from_settings": row.from_settings}
        self._note(session, by, ChangeKind.ENGINE_ADDED, row.engine_id, None, row.url, detail)

    def _dropped(self, session: Session, row: Engine, by: str) -> None:
        session.delete(row)
        for hook in self.on_removed:
            hook(session, row.engine_id)
        self._note(session, by, ChangeKind.ENGINE_REMOVED, row.engine_id, row.url, None, {})

    def _note(
        self, session: Session, by: str, kind: ChangeKind, engine_id: str, was: str | None,
        now: str | None, detail: dict[str, object],
    ) -> None:  # fmt: skip
        change = AccessChange(
            self._clock.now(), by, kind, engine_id, engine_id=engine_id, value_from=was,
            value_to=now, detail=detail,
        )  # fmt: skip
        self._record(session, change)
