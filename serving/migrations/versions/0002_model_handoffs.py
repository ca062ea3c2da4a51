"""Columns of model handoffs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

COLUMNS = (
    sa.Column("requested_model", sa.String(256)),
    sa.Column("prefix_model", sa.String(256)),
    sa.Column("foreign_messages", sa.Integer),
    sa.Column("cleared", sa.Boolean),
    sa.Column("mitigations", sa.String(64)),
    sa.Column("signed", sa.String(64)),
)


def upgrade() -> None:
    """Add the columns that are not there; rows of earlier versions hold nulls."""
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("handoffs")}
    for column in COLUMNS:
        if column.name not in known:
            op.add_column("handoffs", sa.Column(column.name, column.type))


def downgrade() -> None:
    """Take them out again."""
    with op.batch_alter_table("handoffs") as table:
        for column in COLUMNS:
            table.drop_column(column.name)
