"""The registry of governed engines: configured by people, never learnt from telemetry."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import delete, select

from controlplane.auth.models import Engine
from controlplane.clock import Clock
from controlplane.db.database import Database
from controlplane.errors import ConflictError, NotFoundError
from controlplane.settings import EngineSettings


@dataclass(frozen=True, slots=True)
class RegisteredEngine:
    """Where an engine's admin API is, and the token for it (kept out of `repr`)."""

    engine_id: str
    url: str
    group: str
    admin_token: str = field(repr=False)


class EngineRegistry:
    """Engines of the settings, and those that an administrator added."""

    def __init__(
        self, database: Database, clock: Clock, configured: Sequence[EngineSettings]
    ) -> None:
        self._database = database
        self._clock = clock
        self._configured = {engine.id: engine for engine in configured}

    def sync(self) -> None:
        """Make the rows that come from settings equal the settings. Called at start."""
        with self._database.write() as session:
            session.execute(
                delete(Engine).where(
                    Engine.from_settings | Engine.engine_id.in_(list(self._configured))
                )
            )
            now = self._clock.now()
            session.add_all(
                Engine(
                    engine_id=engine.id, url=engine.url, engine_group=engine.group,
                    admin_token=None, from_settings=True, added_at=now,
                )
                for engine in self._configured.values()
            )  # fmt: skip

    def add(self, engine: RegisteredEngine) -> None:
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
            session.add(
                Engine(
                    engine_id=engine.engine_id, url=engine.url, engine_group=engine.group,
                    admin_token=engine.admin_token, from_settings=False,
                    added_at=self._clock.now(),
                )
            )  # fmt: skip

    def remove(self, engine_id: str) -> None:
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
            session.delete(row)

    def all(self) -> list[RegisteredEngine]:
        """Every governed engine, by id."""
        with self._database.read() as session:
            rows = session.scalars(select(Engine).order_by(Engine.engine_id)).all()
        return [self._registered(row) for row in rows]

    def get(self, engine_id: str) -> RegisteredEngine:
        """One engine.

        Raises:
            NotFoundError: it is not registered.
        """
        with self._database.read() as session:
            row = session.get(Engine, engine_id)
        if row is None:
            raise NotFoundError(
                f"engine {engine_id!r} is not registered", field="engine_id", value=engine_id
            )
        return self._registered(row)

    def _registered(self, row: Engine) -> RegisteredEngine:
        configured = self._configured.get(row.engine_id)
        token = configured.admin_token.get_secret_value() if configured else row.admin_token or ""
        return RegisteredEngine(row.engine_id, row.url, row.engine_group, token)
