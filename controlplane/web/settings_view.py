"""What the Settings page shows: engines, freezes, pins, tokens, who leads."""

from typing import Any

from pydantic import BaseModel, ConfigDict
from sqlalchemy.orm import Session

from controlplane.actuator import holds
from controlplane.actuator.fence import LEASE_NAME
from controlplane.actuator.governance import Governance
from controlplane.actuator.models import FreezeRecord, KnobPin, LeaderLease
from controlplane.auth.access import Access
from controlplane.auth.engines import EngineRegistry
from controlplane.auth.tokens import TokenInfo
from controlplane.engine_kind import EngineKind


class EngineShown(BaseModel):
    """A configured engine, without its token; one of the settings file is dropped there.

    `url` is that of its admin API, of an observe-only kind that of its metrics.
    """

    model_config = ConfigDict(frozen=True)

    engine_id: str
    url: str
    group: str
    kind: EngineKind
    from_settings: bool


class SettingsShown(BaseModel):
    """All of it; `tokens` is empty for those who may not see them."""

    model_config = ConfigDict(frozen=True)

    engines: list[EngineShown]
    freezes: list[dict[str, Any]]
    pins: list[dict[str, Any]]
    tokens: list[TokenInfo]
    leader: str | None
    epoch: int


def shown(
    governing: Governance, registry: EngineRegistry, access: Access, *, administers: bool
) -> SettingsShown:
    """The page's facts."""
    now = governing.clock.now()
    with governing.database.read() as session:
        lease = session.get(LeaderLease, LEASE_NAME)
        freezes = [_freeze(row) for row in holds.freezes_in_force(session, now)]
        pins = _pins(session, now)
    engines = [
        EngineShown(
            engine_id=engine.engine_id,
            url=engine.url,
            group=governing.groups.group_of(engine.engine_id),
            kind=engine.kind,
            from_settings=engine.from_settings,
        )
        for engine in registry.all()
    ]
    return SettingsShown(
        engines=engines, freezes=freezes, pins=pins,
        tokens=access.tokens.all() if administers else [],
        leader=None if lease is None else lease.holder, epoch=0 if lease is None else lease.epoch,
    )  # fmt: skip


def _freeze(row: FreezeRecord) -> dict[str, Any]:
    names = ("freeze_id", "scope", "reason", "author", "created_at", "expires_at", "revert",
             "reached")  # fmt: skip
    return {name: getattr(row, name) for name in names}


def _pins(session: Session, now: float) -> list[dict[str, Any]]:
    names = ("engine_id", "knob", "reason", "author", "created_at", "expires_at")
    rows: list[KnobPin] = holds.pins(session, now)
    return [{name: getattr(row, name) for name in names} for row in rows]
