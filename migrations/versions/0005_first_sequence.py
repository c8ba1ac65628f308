"""A boot knows the first sequence that came: what lies before it is no gap.

Gaps that were recorded there, without a length in time, go where the engine dropped nothing.
Revision: 0005, after 0004.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_UNSEEN = (
    "FROM frame_gap WHERE frame_gap.first_sequence = 0 AND frame_gap.started >= frame_gap.ended"
)
_OF_BOOT = (
    " AND engine_boot.engine_id = frame_gap.engine_id AND engine_boot.boot_id = frame_gap.boot_id"
    " AND engine_boot.dropped_before = 0"
)


def upgrade() -> None:
    op.add_column(
        "engine_boot",
        sa.Column("first_sequence", sa.BigInteger(), nullable=False, server_default="0"),
    )
    op.execute(
        f"UPDATE engine_boot SET first_sequence = (SELECT frame_gap.last_sequence + 1 {_UNSEEN}"  # noqa: S608 - text of our own
        f"{_OF_BOOT}) WHERE EXISTS (SELECT 1 {_UNSEEN}{_OF_BOOT})"
    )
    op.execute(
        "DELETE FROM frame_gap WHERE first_sequence = 0 AND started >= ended AND EXISTS"
        " (SELECT 1 FROM engine_boot WHERE engine_boot.engine_id = frame_gap.engine_id"
        " AND engine_boot.boot_id = frame_gap.boot_id AND engine_boot.dropped_before = 0)"
    )


def downgrade() -> None:
    op.drop_column("engine_boot", "first_sequence")
