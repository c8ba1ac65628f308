"""Tables of acting: the leader's lease, actions, and what holds them back."""

from typing import Any

from sqlalchemy import Boolean, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from controlplane.db.base import Base


class LeaderLease(Base):
    """Who may act. `expires_at` is on the database's clock; `epoch` counts every change of hand."""

    __tablename__ = "leader_lease"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    holder: Mapped[str] = mapped_column(String(128))
    epoch: Mapped[int]
    expires_at: Mapped[float]


class ActionRecord(Base):
    """An action: `body` is the whole value, the other columns find it.

    `holds` is the engine group while in flight, else NULL: unique, so that two actions can never be
    in flight on one group, whoever writes them. `version` counts writes (optimistic lock).
    """

    __tablename__ = "action"
    __table_args__ = (
        Index("ix_action_engine_created", "engine_id", "created_at"),
        Index("ix_action_created", "created_at"),
        Index("ix_action_phase", "phase"),
    )

    action_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    decision_id: Mapped[str] = mapped_column(String(64))
    engine_id: Mapped[str] = mapped_column(String(128))
    engine_group: Mapped[str] = mapped_column(String(128))
    change_key: Mapped[str] = mapped_column(String(256))
    phase: Mapped[str] = mapped_column(String(32))
    holds: Mapped[str | None] = mapped_column(String(128), unique=True)
    created_at: Mapped[float]
    updated_at: Mapped[float]
    epoch: Mapped[int]
    version: Mapped[int]
    body: Mapped[dict[str, Any]]


class FreezeRecord(Base):
    """A halt with scope, reason, author and end; looks like a silence.

    `scope` is "fleet", "group:NAME" or "engine:ID". `engines_told` says that the engines' own
    freeze follows this row; `reached` holds each engine's answer.
    """

    __tablename__ = "freeze"
    __table_args__ = (Index("ix_freeze_lifted", "lifted_at"),)

    freeze_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    scope: Mapped[str] = mapped_column(String(160))
    reason: Mapped[str] = mapped_column(Text)
    author: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[float]
    expires_at: Mapped[float]
    lifted_at: Mapped[float | None]
    lifted_by: Mapped[str | None] = mapped_column(String(128))
    revert: Mapped[bool] = mapped_column(Boolean)
    engines_told: Mapped[bool] = mapped_column(Boolean)
    reached: Mapped[dict[str, Any]]


class KnobPin(Base):
    """A knob of an engine that a human, or a generation that someone else wrote, owns."""

    __tablename__ = "knob_pin"

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    knob: Mapped[str] = mapped_column(String(32), primary_key=True)
    reason: Mapped[str] = mapped_column(Text)
    author: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[float]
    expires_at: Mapped[float | None]


class ChangeQuarantine(Base):
    """A change (knob and target) that failed verification; not proposed again until `until`."""

    __tablename__ = "change_quarantine"

    engine_group: Mapped[str] = mapped_column(String(128), primary_key=True)
    change_key: Mapped[str] = mapped_column(String(256), primary_key=True)
    until: Mapped[float]
    failures: Mapped[int]
    action_id: Mapped[str] = mapped_column(String(64))


class EngineReadback(Base):
    """What an engine's admin API last said.

    `seen_generation` is the newest generation whose cause has been looked at (foreign ones are
    adopted); `baseline` is the config that degradations relax to.
    """

    __tablename__ = "engine_readback"

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    at: Mapped[float]
    reachable: Mapped[bool] = mapped_column(Boolean)
    error: Mapped[str] = mapped_column(Text)
    state: Mapped[dict[str, Any] | None]
    capabilities: Mapped[dict[str, Any] | None]
    biases: Mapped[dict[str, Any] | None]
    seen_generation: Mapped[int | None]
    baseline: Mapped[dict[str, Any] | None]


class LoadReferenceRecord(Base):
    """Expert shares of an engine while its bias was good; replaced when one is marked anew.

    `payload` is what `detectors.reference.LoadReference.to_bytes` gives.
    """

    __tablename__ = "load_reference"

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    bias_hash: Mapped[str | None] = mapped_column(String(64))
    captured_at: Mapped[float]
    author: Mapped[str] = mapped_column(String(128))
    windows: Mapped[int]
    payload: Mapped[bytes]


class PolicyVersion(Base):
    """One version of a policy document; never changed, only followed."""

    __tablename__ = "policy_version"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    body: Mapped[dict[str, Any]]
    author: Mapped[str] = mapped_column(String(128))
    note: Mapped[str] = mapped_column(Text)
    created_at: Mapped[float]


class PolicyAssignment(Base):
    """Which policy governs an engine ("*": every engine without a row of its own), and its modes.

    `modes` overrides the policy's mode by knob.
    """

    __tablename__ = "policy_assignment"

    engine_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    policy: Mapped[str] = mapped_column(String(64))
    modes: Mapped[dict[str, Any]]
    version: Mapped[int]
    author: Mapped[str] = mapped_column(String(128))
    updated_at: Mapped[float]
