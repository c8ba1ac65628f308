"""Access, engines and history.

Revision: 0001, the first.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "access_token",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("engine_id", sa.String(length=128), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_access_token")),
        sa.UniqueConstraint("name", name=op.f("uq_access_token_name")),
    )
    op.create_table(
        "bias_snapshot",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("bias_hash", sa.String(length=64), nullable=False),
        sa.Column("info", sa.JSON(), nullable=False),
        sa.Column("status", sa.String(length=32), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("engine_id", "bias_hash", name=op.f("pk_bias_snapshot")),
    )
    op.create_table(
        "config_change",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("config_hash", sa.String(length=64), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("configured_bias", sa.String(length=64), nullable=True),
        sa.Column("live_bias", sa.String(length=64), nullable=True),
        sa.Column("lkg_bias", sa.String(length=64), nullable=True),
        sa.Column("placement", sa.String(length=128), nullable=False),
        sa.Column("frozen", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_config_change")),
    )
    op.create_index(
        "ix_config_change_engine_at", "config_change", ["engine_id", "at"], unique=False
    )

    op.create_table(
        "engine",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("url", sa.String(length=512), nullable=False),
        sa.Column("engine_group", sa.String(length=128), nullable=False),
        sa.Column("admin_token", sa.String(length=512), nullable=True),
        sa.Column("from_settings", sa.Boolean(), nullable=False),
        sa.Column("added_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("engine_id", name=op.f("pk_engine")),
    )
    op.create_table(
        "engine_boot",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("first_started", sa.Double(), nullable=False),
        sa.Column("last_started", sa.Double(), nullable=False),
        sa.Column("last_ended", sa.Double(), nullable=False),
        sa.Column("last_received", sa.Double(), nullable=False),
        sa.Column("high_sequence", sa.BigInteger(), nullable=False),
        sa.Column("last_ordinal", sa.BigInteger(), nullable=False),
        sa.Column("frames", sa.BigInteger(), nullable=False),
        sa.Column("dropped_before", sa.BigInteger(), nullable=False),
        sa.Column("state_key", sa.String(length=128), nullable=False),
        sa.Column("header", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("engine_id", "boot_id", name=op.f("pk_engine_boot")),
    )
    op.create_table(
        "frame_gap",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("first_sequence", sa.BigInteger(), nullable=False),
        sa.Column("last_sequence", sa.BigInteger(), nullable=False),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_frame_gap")),
    )
    op.create_index(
        "ix_frame_gap_engine_started", "frame_gap", ["engine_id", "started"], unique=False
    )

    op.create_table(
        "incident_pin",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("engine_id", sa.String(length=128), nullable=True),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("ended", sa.Double(), nullable=False),
        sa.Column("reason", sa.String(length=512), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incident_pin")),
    )
    op.create_index("ix_incident_pin_ended", "incident_pin", ["ended"], unique=False)

    op.create_table(
        "layer_summary",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("layer", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tier", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("t0", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("assignments", sa.BigInteger(), nullable=False),
        sa.Column("load_cv_ratio", sa.Double(), nullable=True),
        sa.Column("load_cv_debiased_ratio", sa.Double(), nullable=True),
        sa.Column("max_over_mean_ratio", sa.Double(), nullable=True),
        sa.Column("top_share_ratio", sa.Double(), nullable=True),
        sa.Column("hot_expert", sa.BigInteger(), nullable=True),
        sa.Column("overflow", sa.BigInteger(), nullable=False),
        sa.Column("rerouted", sa.BigInteger(), nullable=False),
        sa.Column("spilled", sa.BigInteger(), nullable=False),
        sa.Column("dropped", sa.BigInteger(), nullable=False),
        sa.Column("executed", sa.BigInteger(), nullable=False),
        sa.Column("dispatch_p50_seconds", sa.Double(), nullable=True),
        sa.Column("dispatch_p99_seconds", sa.Double(), nullable=True),
        sa.Column("combine_p50_seconds", sa.Double(), nullable=True),
        sa.Column("combine_p99_seconds", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("engine_id", "layer", "tier", "t0", name=op.f("pk_layer_summary")),
        postgresql_partition_by="RANGE (tier, t0)",
        sqlite_with_rowid=False,
    )
    op.create_table(
        "load_chunk",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("t0", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("part", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("frames", sa.BigInteger(), nullable=False),
        sa.Column("counts", sa.BigInteger(), nullable=False),
        sa.Column("first_ordinal", sa.BigInteger(), nullable=False),
        sa.Column("last_ordinal", sa.BigInteger(), nullable=False),
        sa.Column("codec", sa.String(length=16), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("engine_id", "t0", "part", name=op.f("pk_load_chunk")),
        postgresql_partition_by="RANGE (t0)",
    )
    op.create_index("ix_load_chunk_t0", "load_chunk", ["t0"], unique=False, postgresql_using="brin")

    op.create_table(
        "load_ring",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("slot", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("started", sa.Double(), nullable=False),
        sa.Column("interval_seconds", sa.Double(), nullable=False),
        sa.Column("sealed", sa.Boolean(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("engine_id", "slot", name=op.f("pk_load_ring")),
    )
    op.create_index(
        "ix_load_ring_engine_started", "load_ring", ["engine_id", "started"], unique=False
    )
    op.create_index(
        "ix_load_ring_unsealed",
        "load_ring",
        ["engine_id", "ordinal"],
        unique=False,
        sqlite_where=sa.text("sealed = 0"),
        postgresql_where=sa.text("NOT sealed"),
    )
    op.create_index(
        "uq_load_ring_frame", "load_ring", ["engine_id", "boot_id", "sequence"], unique=True
    )

    op.create_table(
        "load_rollup",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("tier", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("t0", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("frames", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("engine_id", "tier", "t0", name=op.f("pk_load_rollup")),
        postgresql_partition_by="RANGE (tier, t0)",
    )
    op.create_table(
        "login_link",
        sa.Column("link_hash", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("used_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("link_hash", name=op.f("pk_login_link")),
    )
    op.create_table(
        "web_session",
        sa.Column("session_hash", sa.String(length=64), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("csrf_token", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("session_hash", name=op.f("pk_web_session")),
    )
    if op.get_context().dialect.name == "postgresql":
        for table in ("load_ring", "load_chunk", "load_rollup"):
            # Payloads are compressed already: TOAST must not try again.
            op.execute(f"ALTER TABLE {table} ALTER COLUMN payload SET STORAGE EXTERNAL")


def downgrade() -> None:
    op.drop_table("web_session")
    op.drop_table("login_link")
    op.drop_table("load_rollup")
    op.drop_table("load_ring")
    op.drop_table("load_chunk")
    op.drop_table("layer_summary")
    op.drop_table("incident_pin")
    op.drop_table("frame_gap")
    op.drop_table("engine_boot")
    op.drop_table("engine")
    op.drop_table("config_change")
    op.drop_table("bias_snapshot")
    op.drop_table("access_token")
