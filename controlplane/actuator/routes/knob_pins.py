"""Pins: knobs that a human owns."""

from fastapi import APIRouter
from pydantic import Field

from controlplane.actuator import holds
from controlplane.actuator.models import KnobPin
from controlplane.actuator.routes.dependencies import Body, Governing, Operator, Viewer
from controlplane.audit import log
from controlplane.audit.chain import Event
from controlplane.policy.knob import Knob

router = APIRouter(prefix="/knob-pins", tags=["knob pins"])


class PinWish(Body):
    """A knob to take from the governor; without `ttl_seconds` until it is unpinned."""

    engine_id: str = Field(min_length=1, max_length=128)
    knob: Knob
    reason: str = Field(min_length=1, max_length=512)
    ttl_seconds: float | None = Field(default=None, gt=0)


class PinShown(Body):
    """A pin in force."""

    engine_id: str
    knob: Knob
    reason: str
    author: str
    created_at: float
    expires_at: float | None


@router.get("")
def list_knob_pins(
    _viewer: Viewer, governing: Governing, engine: str | None = None
) -> list[PinShown]:
    """Pins in force."""
    with governing.database.read() as session:
        return [_shown(row) for row in holds.pins(session, governing.clock.now(), engine)]


@router.post("", status_code=201)
def pin_knob(wish: PinWish, operator: Operator, governing: Governing) -> PinShown:
    """Take a knob from the governor."""
    governing.groups.group_of(wish.engine_id)
    now = governing.clock.now()
    with governing.database.write() as session:
        row = holds.pin(
            session, engine_id=wish.engine_id, knob=wish.knob, reason=wish.reason,
            author=operator.name, at=now, ttl_seconds=wish.ttl_seconds,
        )  # fmt: skip
        event = Event(
            actor=operator.name, kind="pin.created", subject=f"{wish.engine_id}:{wish.knob}",
            engine_id=wish.engine_id, detail={"reason": wish.reason},
        )  # fmt: skip
        log.append(session, event, at=now)
        return _shown(row)


@router.delete("/{engine_id}/{knob}", status_code=204)
def unpin_knob(engine_id: str, knob: Knob, operator: Operator, governing: Governing) -> None:
    """Give a knob back to the governor."""
    with governing.database.write() as session:
        holds.unpin(session, engine_id=engine_id, knob=knob)
        event = Event(
            actor=operator.name, kind="pin.removed", subject=f"{engine_id}:{knob}",
            engine_id=engine_id,
        )  # fmt: skip
        log.append(session, event, at=governing.clock.now())


def _shown(row: KnobPin) -> PinShown:
    return PinShown(
        engine_id=row.engine_id, knob=Knob(row.knob), reason=row.reason, author=row.author,
        created_at=row.created_at, expires_at=row.expires_at,
    )  # fmt: skip
