"""Decisions with their evidence, and the audit log: list, verify, export."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict

from controlplane.audit import decisions, log
from controlplane.audit.models import DecisionRecord
from controlplane.auth.access import require
from controlplane.auth.roles import Principal, Role
from controlplane.db.database import Database
from controlplane.errors import NotFoundError

router = APIRouter(prefix="/api/v1", tags=["audit"])
Viewer = Annotated[Principal, Depends(require(Role.VIEWER))]


def _database(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


Stored = Annotated[Database, Depends(_database)]
Limit = Annotated[int, Query(ge=1, le=500)]


class _Shown(BaseModel):
    model_config = ConfigDict(frozen=True)


class DecisionShown(_Shown):
    """One decision; `at` … `last_at` is the time that it held, written `repeats` times."""

    decision_id: str
    engine_id: str
    group: str
    at: float
    last_at: float
    repeats: int
    origin: str
    policy: str
    policy_version: int
    mode: str
    reason: str
    explanation: str
    escalate: bool
    proposal: dict[str, Any] | None
    alternatives: list[Any]
    action_id: str | None
    evidence_digest: str


class DecisionDetail(_Shown):
    """A decision with what it was made from."""

    decision: DecisionShown
    evidence: dict[str, Any]
    snapshot: dict[str, Any]


class EvaluationShown(_Shown):
    """What an engine's newest evaluation saw; at most some seconds behind the governor's tick.

    `decision` holds since its own `at`; `explanation` and `snapshot` are of the newest evaluation.
    """

    engine_id: str
    at: float
    explanation: str
    decision: DecisionShown
    snapshot: dict[str, Any]


class ChainShown(_Shown):
    """Whether the log is whole; `broken_at` is the first event that is not."""

    holds: bool
    events: int
    head: str
    broken_at: int | None
    message: str


@router.get("/decisions")
def list_decisions(
    _viewer: Viewer,
    database: Stored,
    engine: str | None = None,
    before: Annotated[float | None, Query(allow_inf_nan=False)] = None,
    acted: bool | None = None,
    limit: Limit = 100,
) -> list[DecisionShown]:
    """Decisions, newest first, "why not" included; `acted` keeps those with (without) an action."""
    with database.read() as session:
        rows = decisions.find(session, engine_id=engine, before=before, acted=acted, limit=limit)
    return [shown(row) for row in rows]


@router.get("/decisions/{decision_id}")
def get_decision(decision_id: str, _viewer: Viewer, database: Stored) -> DecisionDetail:
    """One decision with its evidence and its snapshot."""
    with database.read() as session:
        row = decisions.get(session, decision_id)
        if row is None:
            raise NotFoundError(f"decision {decision_id!r} does not exist", field="decision_id")
        snapshot = decisions.snapshot_of(row)
    return DecisionDetail(decision=shown(row), evidence=row.evidence, snapshot=snapshot)


@router.get("/engines/{engine_id}/evaluation")
def get_evaluation(engine_id: str, _viewer: Viewer, database: Stored) -> EvaluationShown:
    """Findings, attribution, SLOs and holds of an engine as last evaluated."""
    with database.read() as session:
        newest = decisions.newest_evaluation(session, engine_id)
        row = None if newest is None else decisions.get(session, newest.decision_id)
    if newest is None or row is None:
        raise NotFoundError(
            f"engine {engine_id!r} has not been evaluated yet", field="engine_id", value=engine_id
        )
    return EvaluationShown(
        engine_id=engine_id, at=newest.at, explanation=newest.explanation, decision=shown(row),
        snapshot=decisions.snapshot_of(newest),
    )  # fmt: skip


@router.get("/audit")
def list_events(
    _viewer: Viewer,
    database: Stored,
    before: int | None = None,
    subject: str | None = None,
    engine: str | None = None,
    kind: str | None = None,
    limit: Limit = 100,
) -> list[dict[str, Any]]:
    """Events, newest first; page on with `before` = the last one's sequence."""
    with database.read() as session:
        events = log.newest(
            session, before=before, limit=limit, subject=subject, engine_id=engine, kind=kind
        )
        return [log.as_dict(event) for event in events]


@router.get("/audit/verify")
def verify(_viewer: Viewer, database: Stored) -> ChainShown:
    """Walk the whole chain."""
    with database.read() as session:
        check = log.verify(session)
    return ChainShown(
        holds=check.holds, events=check.events, head=check.head, broken_at=check.broken_at,
        message=check.message,
    )  # fmt: skip


@router.get("/audit/export")
def export(_viewer: Viewer, database: Stored) -> StreamingResponse:
    """The whole log as JSON lines, oldest first."""
    return StreamingResponse(
        _lines(database), media_type="application/x-ndjson",
        headers={"Content-Disposition": 'attachment; filename="trimtab-audit.jsonl"'},
    )  # fmt: skip


def _lines(database: Database) -> Iterator[str]:
    with database.read() as session:
        yield from log.export_lines(session)


def shown(row: DecisionRecord) -> DecisionShown:
    """A decision as lists show it."""
    return DecisionShown(
        decision_id=row.decision_id, engine_id=row.engine_id, group=row.engine_group, at=row.at,
        last_at=row.last_at, repeats=row.repeats, origin=row.origin, policy=row.policy,
        policy_version=row.policy_version, mode=row.mode, reason=row.reason,
        explanation=row.explanation, escalate=row.escalate, proposal=row.proposal,
        alternatives=row.alternatives, action_id=row.action_id,
        evidence_digest=row.evidence_digest,
    )  # fmt: skip
