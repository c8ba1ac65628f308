"""Hours whose sum is missing or lacks frames are listed; what was left behind is listed at once.

Revision: 0006, after 0005.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_LEFT_BEHIND = """
INSERT INTO hour_due (engine_id, t0, marks)
SELECT minutes.engine_id, minutes.hour, 1
FROM (
    SELECT engine_id, t0 - t0 % 3600 AS hour, sum(frames) AS frames
    FROM load_rollup WHERE tier = 60 GROUP BY engine_id, t0 - t0 % 3600
) AS minutes
LEFT JOIN load_rollup AS made
    ON made.engine_id = minutes.engine_id AND made.tier = 3600 AND made.t0 = minutes.hour
WHERE made.frames IS NULL OR made.frames < minutes.frames
"""


def upgrade() -> None:
    op.create_table(
        "hour_due",
        sa.Column("engine_id", sa.String(length=128), nullable=False),
        sa.Column("t0", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("marks", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("engine_id", "t0", name=op.f("pk_hour_due")),
    )
    op.execute(sa.text(_LEFT_BEHIND))


def downgrade() -> None:
    op.drop_table("hour_due")
