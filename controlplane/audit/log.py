"""Append to, read, verify and export the audit log. There is no update and no delete."""

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.audit.chain import GENESIS, ChainCheck, Event, check_chain, link
from controlplane.audit.models import AuditEvent, AuditHead

_FIELDS = (
    "sequence", "at", "actor", "kind", "subject", "engine_id", "value_from", "value_to",
    "decision_id", "evidence_digest", "detail", "previous_hash", "hash",
)  # fmt: skip
_PAGE = 500


def append(session: Session, event: Event, *, at: float) -> int:
    """Add one event in the caller's write transaction; gives its sequence."""
    head = session.get(AuditHead, 1, with_for_update=True)
    if head is None:
        head = AuditHead(id=1, sequence=0, hash=GENESIS)
        session.add(head)
    sequence, previous = head.sequence + 1, head.hash
    fields = event.fields(sequence=sequence, at=at)
    hashed = link(previous, fields)
    session.add(AuditEvent(**fields, previous_hash=previous, hash=hashed))
    head.sequence, head.hash = sequence, hashed
    session.flush()
    return sequence


def newest(
    session: Session,
    *,
    before: int | None = None,
    limit: int = 100,
    subject: str | None = None,
    engine_id: str | None = None,
    kind: str | None = None,
) -> list[AuditEvent]:
    """Events, newest first; `before` is a sequence to page on from; `kind` matches a prefix."""
    query = select(AuditEvent).order_by(AuditEvent.sequence.desc()).limit(limit)
    if before is not None:
        query = query.where(AuditEvent.sequence < before)
    if subject is not None:
        query = query.where(AuditEvent.subject == subject)
    if engine_id is not None:
        query = query.where(AuditEvent.engine_id == engine_id)
    if kind is not None:
        query = query.where(AuditEvent.kind.startswith(kind, autoescape=True))
    return list(session.scalars(query))


def as_dict(event: AuditEvent) -> dict[str, Any]:
    """One event as JSON values, hashes included."""
    return {name: getattr(event, name) for name in _FIELDS}


def every(session: Session) -> Iterator[dict[str, Any]]:
    """All events, oldest first, page by page."""
    after = 0
    while True:
        query = (
            select(AuditEvent)
            .where(AuditEvent.sequence > after)
            .order_by(AuditEvent.sequence)
            .limit(_PAGE)
        )
        page = list(session.scalars(query))
        if not page:
            return
        yield from (as_dict(event) for event in page)
        after = page[-1].sequence
        session.expunge_all()


def verify(session: Session) -> ChainCheck:
    """Walk the whole chain."""
    head = session.get(AuditHead, 1)
    at = (0, GENESIS) if head is None else (head.sequence, head.hash)
    return check_chain(every(session), head=at)


def export_lines(session: Session) -> Iterator[str]:
    """The log as JSON lines, oldest first; `verify` of a copy needs nothing else."""
    for event in every(session):
        yield json.dumps(event, sort_keys=True, ensure_ascii=False) + "\n"
