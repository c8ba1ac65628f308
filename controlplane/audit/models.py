"""Tables of the record: the hash-chained audit log, and every decision with its snapshot."""

from typing import Any

from sqlalchemy import Boolean, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.db.base import Base


class AuditHead(Base):
    """The newest link of the chain; one row, locked by whoever appends."""

    __tablename__ = "audit_head"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    sequence: Mapped[int]
    hash: Mapped[str] = mapped_column(String(64))


class AuditEvent(Base):
    """One event. `hash` covers every other column, and `previous_hash` the event before."""

    __tablename__ = "audit_event"
    __table_args__ = (
        Index("ix_audit_event_at", "at"),
        Index("ix_audit_event_subject", "subject"),
    )

    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[float]
    actor: Mapped[str] = mapped_column(String(128))
    kind: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(160))
    engine_id: Mapped[str | None] = mapped_column(String(128))
    value_from: Mapped[str | None] = mapped_column(Text)
    value_to: Mapped[str | None] = mapped_column(Text)
    decision_id: Mapped[str | None] = mapped_column(String(64))
    evidence_digest: Mapped[str | None] = mapped_column(String(64))
    detail: Mapped[dict[str, Any]]
    previous_hash: Mapped[str] = mapped_column(String(64))
    hash: Mapped[str] = mapped_column(String(64))


class DecisionRecord(Base):
    """What `decide` said of one engine, from `at` to `last_at` without change.

    `repeats` counts how often the row was written: prolonging is rarer than evaluating.

    `snapshot` is the zstd-compressed JSON that the first of them saw.
    """

    __tablename__ = "decision"
    __table_args__ = (
        Index("ix_decision_engine_at", "engine_id", "at"),
        Index("ix_decision_at", "at"),
    )

    decision_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    engine_id: Mapped[str] = mapped_column(String(128))
    engine_group: Mapped[str] = mapped_column(String(128))
    at: Mapped[float]
    last_at: Mapped[float]
    repeats: Mapped[int]
    origin: Mapped[str] = mapped_column(String(160))
    policy: Mapped[str] = mapped_column(String(64))
    policy_version: Mapped[int]
    mode: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(String(32))
    explanation: Mapped[str] = mapped_column(Text)
    escalate: Mapped[bool] = mapped_column(Boolean)
    proposal: Mapped[dict[str, Any] | None]
    alternatives: Mapped[list[Any]]
    evidence: Mapped[dict[str, Any]]
    evidence_digest: Mapped[str] = mapped_column(String(64))
    signature: Mapped[str] = mapped_column(String(64))
    action_id: Mapped[str | None] = mapped_column(String(64))
    snapshot: Mapped[bytes] = mapped_column(deferred=True)


class NewestEvaluation(Base):
    """What an engine's newest evaluation saw and said; replaced with every decision written.

    A decision's own row keeps the numbers of the first evaluation that said so; here are the last.
    """

    __tablename__ = "newest_evaluation"

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    at: Mapped[float]
    decision_id: Mapped[str] = mapped_column(String(64))
    explanation: Mapped[str] = mapped_column(Text)
    snapshot: Mapped[bytes]
