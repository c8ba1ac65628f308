"""Alembic's entry: runs revisions on the connection that `migrations.run` passes in.

To add tables from another package:
1. declare them in `controlplane/<package>/models.py` on `controlplane.db.base.Base`;
2. add that module to `MODEL_MODULES` in `controlplane/db/models.py`;
3. add a revision `migrations/versions/NNNN_what.py` whose `down_revision` is the newest one.
   History is one line: 0001, 0002, …. `tests/migrations` fails while the revisions and the models
   differ, on SQLite and on PostgreSQL.

A key that numbers itself is `AutoId` in the models and
`sa.BigInteger().with_variant(sa.Integer(), "sqlite")` in the revision: SQLite numbers INTEGER only.
Partitions of PostgreSQL tables are not in the models; `is_ours` leaves them out.
"""

from alembic import context

from controlplane.db.models import load_models
from migrations.naming import is_ours

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=load_models(),
    render_as_batch=True,
    compare_type=True,
    include_name=is_ours,
)
with context.begin_transaction():
    context.run_migrations()
