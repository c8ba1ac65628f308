"""Alertmanager's webhook, the inbox, and who leads."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict

from contract.headers import ALERTMANAGER_PATH
from controlplane.actuator.fence import LEASE_NAME
from controlplane.actuator.models import LeaderLease
from controlplane.auth.access import require
from controlplane.auth.roles import Principal, Role
from controlplane.scheduling.alertmanager import Webhook
from controlplane.scheduling.governor import Governor

router = APIRouter(tags=["scheduling"])
Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]
Alertmanager = Annotated[Principal, Depends(require(Role.ALERTMANAGER))]


def _governor(request: Request) -> Governor:
    governor: Governor = request.app.state.governor
    return governor


Governing = Annotated[Governor, Depends(_governor)]


class _Shown(BaseModel):
    model_config = ConfigDict(frozen=True)


class Received(_Shown):
    """How many alerts were new, and how many had been delivered before."""

    new: int
    known: int


class AlertShown(_Shown):
    """One alert of the inbox and what became of it."""

    key: str
    alertname: str
    engine_id: str | None
    status: str
    starts_at: float
    ends_at: float | None
    received_at: float
    deliveries: int
    truncated: int
    state: str
    outcome: str
    decision_id: str | None
    payload: dict[str, Any]


class LeaderShown(_Shown):
    """Who leads, by the lease row, and whether it is this process."""

    holder: str | None
    epoch: int
    this_process: str
    leads: bool


@router.post(ALERTMANAGER_PATH)
def receive(webhook: Webhook, _sender: Alertmanager, governor: Governing) -> Received:
    """Keep a notification, then answer; the leader evaluates it within a second."""
    new, known = governor.inbox.receive(webhook)
    return Received(new=new, known=known)


@router.get("/api/v1/alerts")
def list_alerts(
    _viewer: Viewer, governor: Governing, limit: Annotated[int, Query(ge=1, le=500)] = 100
) -> list[AlertShown]:
    """Alerts, newest first."""
    return [
        AlertShown(**{name: getattr(row, name) for name in AlertShown.model_fields})
        for row in governor.inbox.newest(limit)
    ]


@router.get("/api/v1/leader")
def get_leader(_viewer: Viewer, governor: Governing) -> LeaderShown:
    """The leader's lease."""
    with governor.database.read() as session:
        row = session.get(LeaderLease, LEASE_NAME)
    lease = governor.leader.lease
    return LeaderShown(
        holder=None if row is None else row.holder, epoch=0 if row is None else row.epoch,
        this_process=lease.holder, leads=lease.fence() is not None,
    )  # fmt: skip
