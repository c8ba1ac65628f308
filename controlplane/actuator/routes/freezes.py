"""Freezes: the kill switch, with scope, reason and end, as operators know from silences."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from contract.headers import OPERATOR_EPOCH
from contract.written import Written
from controlplane.actuator import holds
from controlplane.actuator.models import FreezeRecord
from controlplane.actuator.routes.dependencies import Body, Governing, Operator, Viewer

router = APIRouter(prefix="/freezes", tags=["freezes"])
MAX_TTL_SECONDS = 30 * 86_400.0


class FreezeWish(Body):
    """A halt.

    Attributes:
        scope: "fleet", "group:NAME" or "engine:ID".
        revert: take changes in flight back first; otherwise they stay as they are.
        engines: freeze the engines themselves too, so that nobody else changes them.
    """

    scope: Annotated[
        str,
        Written(r"^(fleet|group:.{1,128}|engine:.{1,128})$", "be fleet, group:NAME or engine:ID"),
    ]
    reason: str = Field(min_length=1, max_length=400)
    ttl_seconds: float = Field(gt=0, le=MAX_TTL_SECONDS)
    revert: bool = False
    engines: bool = True


class FreezeShown(Body):
    """A freeze, and what the engines said when they were told."""

    freeze_id: str
    scope: str
    reason: str
    author: str
    created_at: float
    expires_at: float
    lifted_at: float | None
    lifted_by: str | None
    revert: bool
    engines: bool
    reached: dict[str, str]


@router.get("")
def list_freezes(_viewer: Viewer, governing: Governing) -> list[FreezeShown]:
    """Freezes in force."""
    with governing.database.read() as session:
        rows = holds.freezes_in_force(session, governing.clock.now())
    return [_shown(row) for row in rows]


@router.post("", status_code=201)
def freeze(wish: FreezeWish, operator: Operator, governing: Governing) -> FreezeShown:
    """Halt a scope at once."""
    row = governing.halts.freeze(
        scope=wish.scope, reason=wish.reason, author=operator.name,
        ttl_seconds=wish.ttl_seconds, revert=wish.revert, tell_engines=wish.engines,
        epoch=OPERATOR_EPOCH,
    )  # fmt: skip
    return _shown(row)


@router.delete("/{freeze_id}")
def lift(freeze_id: str, operator: Operator, governing: Governing) -> FreezeShown:
    """End a freeze."""
    return _shown(governing.halts.lift(freeze_id, by=operator.name, epoch=OPERATOR_EPOCH))


def _shown(row: FreezeRecord) -> FreezeShown:
    return FreezeShown(
        freeze_id=row.freeze_id, scope=row.scope, reason=row.reason, author=row.author,
        created_at=row.created_at, expires_at=row.expires_at, lifted_at=row.lifted_at,
        lifted_by=row.lifted_by, revert=row.revert, engines=row.engines_told,
        reached={str(engine): str(said) for engine, said in row.reached.items()},
    )  # fmt: skip
