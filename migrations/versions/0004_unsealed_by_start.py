"""The index of unsealed frames holds their starts too: what is due is read from it alone.

Revision: 0004, after 0003.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NAME = "ix_load_ring_unsealed"


def upgrade() -> None:
    _replace("engine_id", "ordinal", "started")


def downgrade() -> None:
    _replace("engine_id", "ordinal")


def _replace(*columns: str) -> None:
    op.drop_index(_NAME, table_name="load_ring")
    op.create_index(
        _NAME, "load_ring", list(columns), sqlite_where=sa.text("sealed = 0"),
        postgresql_where=sa.text("NOT sealed"),
    )  # fmt: skip
