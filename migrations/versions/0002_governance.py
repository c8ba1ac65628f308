"""Governance: audit, decisions, actions, leases, policies, alerts.

Revision: 0002, after 0001.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "action",
        sa.Column("action_id", sa.String(length=64), nullable=False),
        sa.Column("decision_id", sa.String(length=64), nullable=False),
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("engine_group", sa.String(length=128), nullable=False),
        sa.Column("change_key", sa.String(length=256), nullable=False),
        sa.Column("phase", sa.String(length=32), nullable=False),
        sa.Column("holds", sa.String(length=128), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("action_id", name=op.f("pk_action")),
        sa.UniqueConstraint("holds", name=op.f("uq_action_holds")),
    )
    op.create_index("ix_action_created", "action", ["created_at"], unique=False)
    op.create_index("ix_action_engine_created", "action", ["engine_id", "created_at"], unique=False)
    op.create_index("ix_action_phase", "action", ["phase"], unique=False)
    op.create_table(
        "alert_inbox",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("alertname", sa.String(length=256), nullable=False),
        sa.Column("engine_id", sa.String(length=128), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("group_key", sa.Text(), nullable=False),
        sa.Column("starts_at", sa.Double(), nullable=False),
        sa.Column("ends_at", sa.Double(), nullable=True),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("deliveries", sa.BigInteger(), nullable=False),
        sa.Column("truncated", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("decision_id", sa.String(length=64), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_alert_inbox")),
    )
    op.create_index("ix_alert_inbox_received", "alert_inbox", ["received_at"], unique=False)
    op.create_index("ix_alert_inbox_state", "alert_inbox", ["state"], unique=False)
    op.create_table(
        "audit_event",
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=160), nullable=False),
        sa.Column("engine_id", sa.String(length=128), nullable=True),
        sa.Column("value_from", sa.Text(), nullable=True),
        sa.Column("value_to", sa.Text(), nullable=True),
        sa.Column("decision_id", sa.String(length=64), nullable=True),
        sa.Column("evidence_digest", sa.String(length=64), nullable=True),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("previous_hash", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_audit_event")),
    )
    op.create_index("ix_audit_event_at", "audit_event", ["at"], unique=False)
    op.create_index("ix_audit_event_subject", "audit_event", ["subject"], unique=False)
    op.create_table(
        "audit_head",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_head")),
    )
    op.create_table(
        "change_quarantine",
        sa.Column("engine_group", sa.String(length=128), nullable=False),
        sa.Column("change_key", sa.String(length=256), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.Column("failures", sa.BigInteger(), nullable=False),
        sa.Column("action_id", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("engine_group", "change_key", name=op.f("pk_change_quarantine")),
    )
    op.create_table(
        "decision",
        sa.Column("decision_id", sa.String(length=64), nullable=False),
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("engine_group", sa.String(length=128), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.Column("repeats", sa.BigInteger(), nullable=False),
        sa.Column("origin", sa.String(length=160), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=False),
        sa.Column("policy_version", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=32), nullable=False),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("escalate", sa.Boolean(), nullable=False),
        sa.Column("proposal", sa.JSON(), nullable=True),
        sa.Column("alternatives", sa.JSON(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.Column("evidence_digest", sa.String(length=64), nullable=False),
        sa.Column("signature", sa.String(length=64), nullable=False),
        sa.Column("action_id", sa.String(length=64), nullable=True),
        sa.Column("snapshot", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("decision_id", name=op.f("pk_decision")),
    )
    op.create_index("ix_decision_at", "decision", ["at"], unique=False)
    op.create_index("ix_decision_engine_at", "decision", ["engine_id", "at"], unique=False)
    op.create_table(
        "engine_readback",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("reachable", sa.Boolean(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=True),
        sa.Column("capabilities", sa.JSON(), nullable=True),
        sa.Column("biases", sa.JSON(), nullable=True),
        sa.Column("seen_generation", sa.BigInteger(), nullable=True),
        sa.Column("baseline", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("engine_id", name=op.f("pk_engine_readback")),
    )
    op.create_table(
        "load_reference",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("bias_hash", sa.String(length=64), nullable=True),
        sa.Column("captured_at", sa.Double(), nullable=False),
        sa.Column("author", sa.String(length=128), nullable=False),
        sa.Column("windows", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("engine_id", name=op.f("pk_load_reference")),
    )
    op.create_table(
        "freeze",
        sa.Column("freeze_id", sa.String(length=64), nullable=False),
        sa.Column("scope", sa.String(length=160), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("author", sa.String(length=128), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("lifted_at", sa.Double(), nullable=True),
        sa.Column("lifted_by", sa.String(length=128), nullable=True),
        sa.Column("revert", sa.Boolean(), nullable=False),
        sa.Column("engines_told", sa.Boolean(), nullable=False),
        sa.Column("reached", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("freeze_id", name=op.f("pk_freeze")),
    )
    op.create_index("ix_freeze_lifted", "freeze", ["lifted_at"], unique=False)
    op.create_table(
        "knob_pin",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("knob", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("author", sa.String(length=128), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("engine_id", "knob", name=op.f("pk_knob_pin")),
    )
    op.create_table(
        "leader_lease",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=128), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leader_lease")),
    )
    op.create_table(
        "policy_assignment",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("policy", sa.String(length=64), nullable=False),
        sa.Column("modes", sa.JSON(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("author", sa.String(length=128), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("engine_id", name=op.f("pk_policy_assignment")),
    )
    op.create_table(
        "policy_version",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("author", sa.String(length=128), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name=op.f("pk_policy_version")),
    )


def downgrade() -> None:
    op.drop_table("policy_version")
    op.drop_table("policy_assignment")
    op.drop_table("leader_lease")
    op.drop_table("knob_pin")
    op.drop_index("ix_freeze_lifted", table_name="freeze")
    op.drop_table("freeze")
    op.drop_table("engine_readback")
    op.drop_table("load_reference")
    op.drop_index("ix_decision_engine_at", table_name="decision")
    op.drop_index("ix_decision_at", table_name="decision")
    op.drop_table("decision")
    op.drop_table("change_quarantine")
    op.drop_table("audit_head")
    op.drop_index("ix_audit_event_subject", table_name="audit_event")
    op.drop_index("ix_audit_event_at", table_name="audit_event")
    op.drop_table("audit_event")
    op.drop_index("ix_alert_inbox_state", table_name="alert_inbox")
    op.drop_index("ix_alert_inbox_received", table_name="alert_inbox")
    op.drop_table("alert_inbox")
    op.drop_index("ix_action_phase", table_name="action")
    op.drop_index("ix_action_engine_created", table_name="action")
    op.drop_index("ix_action_created", table_name="action")
    op.drop_table("action")
