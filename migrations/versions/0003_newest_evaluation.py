"""The newest evaluation of every engine, beside its decisions.

Revision: 0003, after 0002.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "newest_evaluation",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("decision_id", sa.String(length=64), nullable=False),
        sa.Column("explanation", sa.Text(), nullable=False),
        sa.Column("snapshot", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("engine_id", name=op.f("pk_newest_evaluation")),
    )


def downgrade() -> None:
    op.drop_table("newest_evaluation")
