"""One engine as the control plane knows it, and what an operator may do to it."""

from typing import Annotated

from fastapi import APIRouter, Header
from pydantic import Field

from contract.admin import (
    BiasList,
    Capabilities,
    ConfigHistory,
    ConfigState,
    MutationResult,
    WhatIfRequest,
    WhatIfResponse,
)
from contract.runtime_config import ContentHash, RuntimeConfig
from controlplane.actuator import action_store
from controlplane.actuator.action import Action
from controlplane.actuator.routes.dependencies import Body, Governing, Operator, Viewer
from controlplane.errors import InvalidInputError, NotFoundError

router = APIRouter(prefix="/engines/{engine_id}", tags=["engines"])


class EngineControl(Body):
    """What an engine's admin API last said, and what holds it."""

    engine_id: str
    group: str
    read_at: float
    reachable: bool
    error: str
    state: ConfigState | None
    capabilities: Capabilities | None
    biases: BiasList | None
    baseline: RuntimeConfig | None
    in_flight: str | None


class BiasRollbackWish(Body):
    """A stored bias version to make live, whole or for some MoE layers."""

    bias_hash: ContentHash
    layers: tuple[int, ...] | None = None
    reason: str = Field(min_length=1, max_length=512)


class ConfigRollbackWish(Body):
    """A stored generation to restore."""

    to: int = Field(ge=0)
    reason: str = Field(min_length=1, max_length=512)


class MarkGoodWish(Body):
    """The version to mark; the live one by default."""

    bias_hash: ContentHash | None = None


IfMatch = Annotated[str | None, Header(alias="If-Match")]


@router.get("/control")
def get_control(engine_id: str, _viewer: Viewer, governing: Governing) -> EngineControl:
    """The last read-back of an engine."""
    group = governing.groups.group_of(engine_id)
    known = governing.readback.known(engine_id)
    if known is None:
        governing.admins.of(engine_id)  # an observe-only engine has none, and is refused as such
        raise NotFoundError(
            f"engine {engine_id!r} has not been read back yet", field="engine_id", value=engine_id
        )
    with governing.database.read() as session:
        in_flight = action_store.in_flight(session, group)
    return EngineControl(
        engine_id=engine_id, group=group, read_at=known.at, reachable=known.reachable,
        error=known.error, state=known.state, capabilities=known.capabilities,
        biases=known.biases, baseline=known.baseline, in_flight=in_flight,
    )  # fmt: skip


@router.get("/config")
def get_config(engine_id: str, _viewer: Viewer, governing: Governing) -> ConfigState:
    """The engine's config as it is now; its `etag` is what a rollback must repeat."""
    return governing.admins.of(engine_id).config()


@router.get("/config/history")
def get_history(engine_id: str, _viewer: Viewer, governing: Governing) -> ConfigHistory:
    """The generations that the engine stores, oldest first."""
    return governing.admins.of(engine_id).history()


@router.get("/router-bias")
def get_biases(engine_id: str, _viewer: Viewer, governing: Governing) -> BiasList:
    """The bias versions that the engine stores."""
    return governing.admins.of(engine_id).biases()


@router.post("/router-bias/rollback", status_code=201)
def roll_bias_back(
    engine_id: str,
    wish: BiasRollbackWish,
    operator: Operator,
    governing: Governing,
    if_match: IfMatch = None,
) -> Action:
    """Make a stored bias version live. `If-Match` is the ETag that the page showed."""
    return governing.operations.roll_bias_back(
        engine_id, bias_hash=wish.bias_hash, layers=wish.layers, if_match=_etag(if_match),
        by=operator.name, reason=wish.reason,
    )  # fmt: skip


@router.post("/config/rollback", status_code=201)
def roll_config_back(
    engine_id: str,
    wish: ConfigRollbackWish,
    operator: Operator,
    governing: Governing,
    if_match: IfMatch = None,
) -> Action:
    """Restore a stored generation. `If-Match` is the ETag that the page showed."""
    return governing.operations.roll_config_back(
        engine_id, generation=wish.to, if_match=_etag(if_match), by=operator.name,
        reason=wish.reason,
    )  # fmt: skip


@router.post("/router-bias/mark-good")
def mark_good(
    engine_id: str, operator: Operator, governing: Governing, wish: MarkGoodWish | None = None
) -> MutationResult:
    """Make a bias version the last known good, and keep the present expert shares with it."""
    bias_hash = wish.bias_hash if wish else None
    return governing.operations.mark_good(engine_id, bias_hash=bias_hash, by=operator.name)


@router.post("/what-if")
def what_if(
    engine_id: str, wish: WhatIfRequest, _viewer: Viewer, governing: Governing
) -> WhatIfResponse:
    """Shadow routing: what another bias or another C would do on the sampled steps."""
    if (wish.bias_hash is None) == (wish.capacity_factor is None):
        raise InvalidInputError(
            "name exactly one of bias_hash and capacity_factor", field="bias_hash"
        )
    return governing.operations.what_if(engine_id, wish)


def _etag(if_match: str | None) -> str:
    if not if_match:
        raise InvalidInputError(
            "send the page's ETag as If-Match: a stale page must not roll back", field="If-Match"
        )
    return if_match
