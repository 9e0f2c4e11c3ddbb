"""Maps, their versions and channels; nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _name(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=64, collation="C"), nullable=False)


def _id(name: str, *, nullable: bool) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=36, collation="C"), nullable=nullable)


def _now(name: str) -> sa.Column[object]:
    now = sa.text("clock_timestamp()")
    return sa.Column(name, sa.DateTime(timezone=True), server_default=now, nullable=False)


def _moment(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def upgrade() -> None:
    op.create_table(
        "maps",
        _name("name"),
        sa.Column("last_version", sa.Integer(), server_default=sa.text("0"), nullable=False),
        _id("created_by", nullable=True),
        _now("created_at"),
        _now("updated_at"),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_maps")),
        sa.ForeignKeyConstraint(
            ["created_by"], ["users.id"], name=op.f("fk_maps_created_by_users"), ondelete="SET NULL"
        ),
    )
    op.create_table(
        "map_versions",
        _name("map_name"),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("summary", postgresql.JSONB(), nullable=False),
        sa.Column("jobs", postgresql.JSONB(), nullable=False),
        sa.Column("overrides", postgresql.JSONB(), nullable=False),
        sa.Column("publication", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        _id("created_by", nullable=True),
        _now("created_at"),
        sa.CheckConstraint("version > 0", name=op.f("ck_map_versions_version")),
        sa.CheckConstraint("digest = encode(sha256(content), 'hex')", name=op.f("ck_map_versions_digest")),
        sa.PrimaryKeyConstraint("map_name", "version", name=op.f("pk_map_versions")),
        sa.UniqueConstraint("map_name", "publication", name=op.f("uq_map_versions_map_name_publication")),
        sa.ForeignKeyConstraint(["map_name"], ["maps.name"], name=op.f("fk_map_versions_map_name_maps")),
        sa.ForeignKeyConstraint(
            ["created_by"], ["users.id"], name=op.f("fk_map_versions_created_by_users"), ondelete="SET NULL"
        ),
    )
    op.create_table(
        "channels",
        _name("map_name"),
        _name("name"),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("envelope", sa.Text(), nullable=False),
        _moment("issued_at"),
        _moment("expires_at"),
        sa.Column("key_ids", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.CheckConstraint("sequence > 0 AND revision >= sequence", name=op.f("ck_channels_sequence")),
        sa.CheckConstraint("expires_at > issued_at", name=op.f("ck_channels_expiry")),
        sa.PrimaryKeyConstraint("map_name", "name", name=op.f("pk_channels")),
        sa.ForeignKeyConstraint(
            ["map_name", "version"],
            ["map_versions.map_name", "map_versions.version"],
            name=op.f("fk_channels_map_name_version_map_versions"),
        ),
    )
    op.create_table(
        "channel_moves",
        _name("map_name"),
        _name("channel"),
        sa.Column("sequence", sa.Integer(), autoincrement=False, nullable=False),
        _id("id", nullable=False),
        sa.Column("from_version", sa.Integer(), nullable=True),
        sa.Column("to_version", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        _now("at"),
        sa.PrimaryKeyConstraint("map_name", "channel", "sequence", name=op.f("pk_channel_moves")),
        sa.UniqueConstraint("id", name=op.f("uq_channel_moves_id")),
        sa.ForeignKeyConstraint(
            ["map_name", "channel"],
            ["channels.map_name", "channels.name"],
            name=op.f("fk_channel_moves_map_name_channel_channels"),
        ),
        sa.ForeignKeyConstraint(
            ["map_name", "to_version"],
            ["map_versions.map_name", "map_versions.version"],
            name=op.f("fk_channel_moves_map_name_to_version_map_versions"),
        ),
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.String(length=128, collation="C"), nullable=False),
        sa.Column("map_name", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("sequence", sa.BigInteger(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        _moment("since"),
        _moment("fetched_at", nullable=True),
        sa.Column("poll_seconds", sa.Double(), nullable=False),
        sa.Column("target_fingerprint", sa.Text(), nullable=True),
        sa.Column("software", sa.Text(), nullable=False),
        sa.Column("key_ids", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("domains", postgresql.JSONB(), nullable=False),
        _id("reported_by", nullable=False),
        _now("first_seen_at"),
        _now("seen_at"),
        sa.CheckConstraint("state IN ('FRESH', 'STALE', 'EXPIRED', 'NONE')", name=op.f("ck_nodes_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index(
        op.f("ix_nodes_map_name_channel_id"), "nodes", ["map_name", "channel", "id"], unique=False
    )


def downgrade() -> None:
    op.drop_index(op.f("ix_nodes_map_name_channel_id"), table_name="nodes")
    for table in ("nodes", "channel_moves", "channels", "map_versions", "maps"):
        op.drop_table(table)
