"""Every decision with its evidence, alternatives and the snapshot it was made from.

"Why not" is kept too: a decision that says the same as the engine's last one prolongs that row.
"""

import json
import secrets
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import zstandard
from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from contract.zstd_blocks import decompress
from controlplane.audit.chain import digest
from controlplane.audit.models import DecisionRecord, NewestEvaluation

SNAPSHOT_LEVEL = 6
MAX_SNAPSHOT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class DecisionEntry:
    """One evaluation, as JSON values.

    Attributes:
        origin: "tick", or "alert:KEY" when an alert asked to evaluate now.
        policy_version: of the policy document that decided.
        proposal: the change, or None.
        evidence: what the decision page shows: findings, SLOs, attribution.
        snapshot: everything that `decide` saw.
    """

    engine_id: str
    group: str
    at: float
    policy: str
    policy_version: int
    mode: str
    reason: str
    explanation: str
    escalate: bool
    proposal: dict[str, Any] | None
    alternatives: list[dict[str, Any]]
    evidence: dict[str, Any]
    snapshot: dict[str, Any]
    origin: str = "tick"
    action_id: str | None = field(default=None)

    @property
    def signature(self) -> str:
        """Equal for decisions that say the same, whatever their numbers."""
        change = self.proposal and {k: self.proposal.get(k) for k in ("knob", "target")}
        lost = sorted({(str(a.get("knob")), str(a.get("lost_because"))) for a in self.alternatives})
        said = (self.policy, self.policy_version, self.mode, self.reason, self.escalate)
        return digest([*said, change, [list(pair) for pair in lost]])


def last_of(session: Session, engine_id: str) -> DecisionRecord | None:
    """The engine's newest decision."""
    return session.scalars(
        select(DecisionRecord)
        .where(DecisionRecord.engine_id == engine_id)
        .order_by(DecisionRecord.last_at.desc(), DecisionRecord.at.desc())
        .limit(1)
    ).first()


class Said(NamedTuple):
    """Which decision is the newest, what it said, and until when (unix seconds)."""

    decision_id: str
    signature: str
    last_at: float


def last_said(session: Session, engine_id: str) -> Said | None:
    """The engine's newest decision without its evidence, which is long."""
    row = session.execute(
        select(DecisionRecord.decision_id, DecisionRecord.signature, DecisionRecord.last_at)
        .where(DecisionRecord.engine_id == engine_id)
        .order_by(DecisionRecord.last_at.desc(), DecisionRecord.at.desc())
        .limit(1)
    ).first()
    return None if row is None else Said(*row)


def record(session: Session, entry: DecisionEntry) -> tuple[DecisionRecord, bool]:
    """Store a decision, or prolong the last one when it says the same; tells whether it is new.

    A decision that an alert asked for always has a row of its own. Either way the entry becomes the
    engine's newest evaluation.
    """
    row, is_new = _recorded(session, entry)
    session.merge(
        NewestEvaluation(
            engine_id=entry.engine_id, at=entry.at, decision_id=row.decision_id,
            explanation=entry.explanation, snapshot=_packed(entry.snapshot),
        )
    )  # fmt: skip
    return row, is_new


def _recorded(session: Session, entry: DecisionEntry) -> tuple[DecisionRecord, bool]:
    last = last_of(session, entry.engine_id)
    repeats = last is not None and last.signature == entry.signature and entry.origin == "tick"
    if last is not None and repeats and entry.action_id in {None, last.action_id}:
        last.last_at, last.repeats = entry.at, last.repeats + 1
        return last, False
    row = DecisionRecord(
        decision_id=f"dec-{secrets.token_hex(10)}", engine_id=entry.engine_id,
        engine_group=entry.group, at=entry.at, last_at=entry.at, repeats=1, origin=entry.origin,
        policy=entry.policy, policy_version=entry.policy_version, mode=entry.mode,
        reason=entry.reason, explanation=entry.explanation, escalate=entry.escalate,
        proposal=entry.proposal, alternatives=entry.alternatives, evidence=entry.evidence,
        evidence_digest=digest(entry.evidence), signature=entry.signature,
        action_id=entry.action_id, snapshot=_packed(entry.snapshot),
    )  # fmt: skip
    session.add(row)
    session.flush()
    return row, True


def find(
    session: Session,
    *,
    engine_id: str | None = None,
    before: float | None = None,
    acted: bool | None = None,
    limit: int = 100,
) -> list[DecisionRecord]:
    """Decisions, newest first; `acted` keeps those with (or without) a proposal."""
    query = select(DecisionRecord).order_by(DecisionRecord.at.desc()).limit(limit)
    if engine_id is not None:
        query = query.where(DecisionRecord.engine_id == engine_id)
    if before is not None:
        query = query.where(DecisionRecord.at < before)
    if acted is not None:
        has_action = DecisionRecord.action_id.is_not(None)
        query = query.where(has_action if acted else ~has_action)
    return list(session.scalars(query))


def get(session: Session, decision_id: str) -> DecisionRecord | None:
    """One decision with its snapshot's bytes."""
    return session.get(DecisionRecord, decision_id, options=[undefer(DecisionRecord.snapshot)])


def newest_evaluation(session: Session, engine_id: str) -> NewestEvaluation | None:
    """The engine's newest evaluation; None before the first."""
    return session.get(NewestEvaluation, engine_id)


def newest_evaluations(session: Session) -> list[NewestEvaluation]:
    """The newest evaluation of every engine, by id."""
    return list(session.scalars(select(NewestEvaluation).order_by(NewestEvaluation.engine_id)))


def snapshot_of(row: DecisionRecord | NewestEvaluation) -> dict[str, Any]:
    """The snapshot that a decision was made from, as JSON values."""
    value: dict[str, Any] = json.loads(decompress(row.snapshot, MAX_SNAPSHOT_BYTES))
    return value


def _packed(snapshot: dict[str, Any]) -> bytes:
    raw = json.dumps(snapshot, separators=(",", ":")).encode()
    return zstandard.ZstdCompressor(level=SNAPSHOT_LEVEL).compress(raw)
