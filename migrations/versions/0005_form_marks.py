"""Marks of forms that may work once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _id(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=36, collation="C"), nullable=False)


def upgrade() -> None:
    op.create_table(
        "form_marks",
        _id("user_id"),
        sa.Column("mark", sa.Text(), nullable=False),
        _id("taken_by"),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("user_id", "mark", name=op.f("pk_form_marks")),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_form_marks_user_id_users"), ondelete="CASCADE"
        ),
    )
    op.create_index(op.f("ix_form_marks_created_at"), "form_marks", ["created_at"], unique=False)


def downgrade() -> None:
    op.drop_table("form_marks")
