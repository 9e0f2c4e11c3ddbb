"""Roles, passwords and identities of users; sessions; indexes to read the audit."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# Until now a token with the scope admin was what made an administrator.
_ADMINS = sa.text("""
    UPDATE users SET role = 'admin'
    WHERE id IN (
        SELECT user_id FROM tokens
        WHERE 'admin' = ANY (scopes) AND revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > clock_timestamp())
    )
""")


def _id(name: str, *, nullable: bool) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=36, collation="C"), nullable=nullable)


def _now(name: str) -> sa.Column[object]:
    now = sa.text("clock_timestamp()")
    return sa.Column(name, sa.DateTime(timezone=True), server_default=now, nullable=False)


def upgrade() -> None:
    op.add_column("users", sa.Column("role", sa.Text(), server_default=sa.text("'viewer'"), nullable=False))
    op.add_column("users", sa.Column("password_hash", sa.Text(), nullable=True))
    op.add_column("users", sa.Column("oidc_subject", sa.Text(), nullable=True))
    op.execute(_ADMINS)
    op.create_check_constraint(
        op.f("ck_users_role"), "users", "role IN ('viewer', 'editor', 'publisher', 'admin')"
    )
    op.create_check_constraint(op.f("ck_users_password_hash"), "users", "password_hash LIKE '$argon2id$%'")
    op.create_unique_constraint(op.f("uq_users_oidc_subject"), "users", ["oidc_subject"])
    op.create_table(
        "sessions",
        _id("id", nullable=False),
        _id("user_id", nullable=False),
        _id("token_id", nullable=True),
        sa.Column("signed_in_with", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        _now("created_at"),
        _now("seen_at"),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "signed_in_with IN ('password', 'token', 'oidc')", name=op.f("ck_sessions_signed_in_with")
        ),
        sa.CheckConstraint(
            "(signed_in_with = 'token') = (token_id IS NOT NULL)", name=op.f("ck_sessions_token")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("sha256", name=op.f("uq_sessions_sha256")),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_sessions_user_id_users"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["token_id"], ["tokens.id"], name=op.f("fk_sessions_token_id_tokens"), ondelete="CASCADE"
        ),
    )
    op.create_index(op.f("ix_sessions_user_id_id"), "sessions", ["user_id", "id"], unique=False)
    op.create_index(op.f("ix_sessions_token_id"), "sessions", ["token_id"], unique=False)
    op.create_index(op.f("ix_audit_actor_id"), "audit", ["actor", "id"], unique=False)
    op.create_index(op.f("ix_audit_action_id"), "audit", ["action", "id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_audit_action_id"), table_name="audit")
    op.drop_index(op.f("ix_audit_actor_id"), table_name="audit")
    op.drop_table("sessions")
    op.drop_constraint(op.f("uq_users_oidc_subject"), "users", type_="unique")
    op.drop_constraint(op.f("ck_users_password_hash"), "users", type_="check")
    op.drop_constraint(op.f("ck_users_role"), "users", type_="check")
    for column in ("oidc_subject", "password_hash", "role"):
        op.drop_column("users", column)
