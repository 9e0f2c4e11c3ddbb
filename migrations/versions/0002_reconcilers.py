"""Reconcilers; an index for chunks that were set aside."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "reconcilers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("swept_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_reconcilers")),
    )
    op.create_index(
        "ix_chunks_failed", "chunks", ["id"], unique=False, postgresql_where=sa.text("state = 'failed'")
    )


def downgrade() -> None:
    op.drop_index("ix_chunks_failed", table_name="chunks", postgresql_where=sa.text("state = 'failed'"))
    op.drop_table("reconcilers")
