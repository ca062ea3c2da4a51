"""The table as it was when context handoffs alone were logged."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, unless a version before the first migration has made it."""
    if sa.inspect(op.get_bind()).has_table("handoffs"):
        return
    op.create_table(
        "handoffs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("decision_id", sa.String(32), nullable=False),
        sa.Column("prefix_digest", sa.String(64), nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("label", sa.String(8)),
        sa.Column("probability", sa.Float),
        sa.Column("thread", sa.Integer),
        sa.Column("kept_messages", sa.Integer, nullable=False),
        sa.Column("dropped_messages", sa.Integer, nullable=False),
        sa.Column("kept_tokens", sa.Integer, nullable=False),
        sa.Column("dropped_tokens", sa.Integer, nullable=False),
        sa.Column("mode", sa.String(8), nullable=False),
        sa.Column("prefix_authors", sa.JSON),
        sa.Column("suffix_model", sa.String(256), nullable=False),
        sa.Column("backend", sa.String(128), nullable=False),
        sa.Column("reason", sa.String(16)),
        sa.Column("risk", sa.Float),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("decision_ms", sa.Float, nullable=False),
        sa.Column("first_byte_ms", sa.Float),
        sa.Column("total_ms", sa.Float, nullable=False),
        sa.Column("content", sa.Text),
    )
    for column in ("time", "decision_id", "prefix_digest"):
        op.create_index(f"ix_handoffs_{column}", "handoffs", [column])


def downgrade() -> None:
    """Drop the log."""
    op.drop_table("handoffs")
