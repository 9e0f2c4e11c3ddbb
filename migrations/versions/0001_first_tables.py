"""First tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("detail", postgresql.JSONB(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_subject_id"), "audit", ["subject", "id"], unique=False)
    op.create_table(
        "evaluation_cache",
        sa.Column("content_key", sa.String(collation="C"), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("skip_key", sa.String(collation="C"), nullable=False),
        sa.Column("accept_length", sa.Double(), nullable=False),
        sa.Column("accepted_drafts", sa.Double(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Double(), nullable=False),
        sa.Column("evaluator", sa.Text(), nullable=False),
        sa.Column("batch_split", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("figures", postgresql.JSONB(), nullable=False),
        sa.Column("prompts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("content_key", "skip_key", name=op.f("pk_evaluation_cache")),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "workers",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("boot_id", sa.Text(), nullable=False),
        sa.Column("device_class", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("draining", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("quarantined_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("crashes_in_a_row", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_crashed_chunk", sa.String(length=36, collation="C"), nullable=True),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "seen_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_workers")),
    )
    op.create_table(
        "calibration_sets",
        sa.Column("id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("items", sa.Integer(), nullable=False),
        sa.Column("statistics", postgresql.JSONB(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("created_by", sa.String(length=36, collation="C"), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint("items > 0", name=op.f("ck_calibration_sets_items")),
        sa.ForeignKeyConstraint(
            ["created_by"],
            ["users.id"],
            name=op.f("fk_calibration_sets_created_by_users"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calibration_sets")),
        sa.UniqueConstraint("sha256", name=op.f("uq_calibration_sets_sha256")),
    )
    op.create_table(
        "domains",
        sa.Column("id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("definition", postgresql.JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.String(length=36, collation="C"), nullable=True),
        sa.ForeignKeyConstraint(
            ["created_by"], ["users.id"], name=op.f("fk_domains_created_by_users"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_domains")),
        sa.UniqueConstraint("name", name=op.f("uq_domains_name")),
    )
    op.create_table(
        "drafts",
        sa.Column("id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("definition", postgresql.JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.String(length=36, collation="C"), nullable=True),
        sa.ForeignKeyConstraint(
            ["created_by"], ["users.id"], name=op.f("fk_drafts_created_by_users"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drafts")),
        sa.UniqueConstraint("name", name=op.f("uq_drafts_name")),
    )
    op.create_table(
        "targets",
        sa.Column("id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("definition", postgresql.JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("created_by", sa.String(length=36, collation="C"), nullable=True),
        sa.ForeignKeyConstraint(
            ["created_by"], ["users.id"], name=op.f("fk_targets_created_by_users"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_targets")),
        sa.UniqueConstraint("name", name=op.f("uq_targets_name")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("user_id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "cardinality(scopes) > 0 AND scopes <@ ARRAY['jobs:read', 'jobs:write', 'maps:read', 'maps:publish', 'nodes:report', 'admin']::text[]",
            name=op.f("ck_tokens_scopes"),
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_tokens_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("sha256", name=op.f("uq_tokens_sha256")),
    )
    op.create_index(op.f("ix_tokens_user_id"), "tokens", ["user_id"], unique=False)
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("spec_digest", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("labels", postgresql.JSONB(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("draft", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=36, collation="C"), nullable=True),
        sa.Column("calibration_set_id", sa.String(length=36, collation="C"), nullable=True),
        sa.Column("device_class", sa.Text(), nullable=True),
        sa.Column("engine", sa.Text(), nullable=True),
        sa.Column("content_key", sa.Text(), nullable=True),
        sa.Column("facts", postgresql.JSONB(), nullable=True),
        sa.Column("max_seconds", sa.Double(), nullable=True),
        sa.Column("outcome", postgresql.JSONB(), nullable=True),
        sa.Column("best", postgresql.JSONB(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("last_event", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state IN ('cancelled', 'succeeded', 'failed')) = (finished_at IS NOT NULL)",
            name=op.f("ck_jobs_finished"),
        ),
        sa.CheckConstraint(
            "(state IN ('cancelling', 'cancelled')) = (cancel_requested_at IS NOT NULL)",
            name=op.f("ck_jobs_cancel"),
        ),
        sa.CheckConstraint(
            "state IN ('running', 'pausing', 'paused', 'cancelling', 'cancelled', 'succeeded', 'failed')",
            name=op.f("ck_jobs_state"),
        ),
        sa.CheckConstraint("priority BETWEEN 0 AND 9", name=op.f("ck_jobs_priority")),
        sa.ForeignKeyConstraint(
            ["calibration_set_id"],
            ["calibration_sets.id"],
            name=op.f("fk_jobs_calibration_set_id_calibration_sets"),
        ),
        sa.ForeignKeyConstraint(
            ["created_by"], ["users.id"], name=op.f("fk_jobs_created_by_users"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        postgresql_with={"fillfactor": "85"},
    )
    op.create_index(op.f("ix_jobs_calibration_set_id"), "jobs", ["calibration_set_id"], unique=False)
    op.create_index(op.f("ix_jobs_domain_id"), "jobs", ["domain", "id"], unique=False)
    op.create_index(op.f("ix_jobs_draft_id"), "jobs", ["draft", "id"], unique=False)
    op.create_index("ix_jobs_labels", "jobs", ["labels"], unique=False, postgresql_using="gin")
    op.create_index(op.f("ix_jobs_state_id"), "jobs", ["state", "id"], unique=False)
    op.create_index(op.f("ix_jobs_target_id"), "jobs", ["target", "id"], unique=False)
    op.create_table(
        "evaluations",
        sa.Column("job_id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("skip", postgresql.ARRAY(sa.SmallInteger()), nullable=False),
        sa.Column("depth", sa.SmallInteger(), nullable=False),
        sa.Column("cached", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("chunk_id", sa.String(length=36, collation="C"), nullable=True),
        sa.Column("claim_token", sa.Uuid(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("skip_key", sa.String(collation="C"), nullable=False),
        sa.Column("accept_length", sa.Double(), nullable=False),
        sa.Column("accepted_drafts", sa.Double(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("metric", sa.Double(), nullable=False),
        sa.Column("evaluator", sa.Text(), nullable=False),
        sa.Column("batch_split", sa.Boolean(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("figures", postgresql.JSONB(), nullable=False),
        sa.Column("prompts", sa.JSON(), nullable=False),
        sa.CheckConstraint(
            "accept_length >= 0 AND accepted_drafts >= 0 AND steps >= 0", name=op.f("ck_evaluations_counts")
        ),
        sa.CheckConstraint("depth = cardinality(skip)", name=op.f("ck_evaluations_depth")),
        sa.CheckConstraint("metric >= 0 AND metric <= 1", name=op.f("ck_evaluations_metric")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_evaluations_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "skip_key", name=op.f("pk_evaluations")),
    )
    op.create_index(
        op.f("ix_evaluations_job_id_accept_length_skip_key"),
        "evaluations",
        ["job_id", "accept_length", "skip_key"],
        unique=False,
    )
    op.create_index(
        op.f("ix_evaluations_job_id_depth_skip"), "evaluations", ["job_id", "depth", "skip"], unique=False
    )
    op.create_index(
        op.f("ix_evaluations_job_id_metric_skip_key"),
        "evaluations",
        ["job_id", "metric", "skip_key"],
        unique=False,
    )
    op.create_table(
        "events",
        sa.Column("job_id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("payload", postgresql.JSONB(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_events_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "seq", name=op.f("pk_events")),
    )
    op.create_table(
        "findings",
        sa.Column("job_id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key", sa.String(collation="C"), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("chunk_id", sa.String(length=36, collation="C"), nullable=True),
        sa.Column("claim_token", sa.Uuid(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint("kind IN ('cost', 'held_out', 'result')", name=op.f("ck_findings_kind")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_findings_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "kind", "key", name=op.f("pk_findings")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.Column("job_id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
            name=op.f("fk_idempotency_keys_job_id_jobs"),
            ondelete="CASCADE",
            deferrable=True,
            initially="DEFERRED",
        ),
        sa.PrimaryKeyConstraint("principal", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"], unique=False)
    op.create_index(op.f("ix_idempotency_keys_job_id"), "idempotency_keys", ["job_id"], unique=False)
    op.create_table(
        "levels",
        sa.Column("id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("job_id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("idx", sa.SmallInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("depth", sa.SmallInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("feasible", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("pace", postgresql.JSONB(), nullable=True),
        sa.Column("plan", postgresql.JSONB(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(kind IN ('dense', 'single', 'level')) = (depth IS NOT NULL)", name=op.f("ck_levels_depth")
        ),
        sa.CheckConstraint("(state = 'running') = (finished_at IS NULL)", name=op.f("ck_levels_finished")),
        sa.CheckConstraint(
            "kind IN ('dense', 'single', 'level', 'cost', 'held_out', 'result')", name=op.f("ck_levels_kind")
        ),
        sa.CheckConstraint(
            "state IN ('running', 'done', 'failed', 'cancelled')", name=op.f("ck_levels_state")
        ),
        sa.CheckConstraint(
            "idx >= 0 AND size > 0 AND done BETWEEN 0 AND size", name=op.f("ck_levels_counts")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_levels_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_levels")),
        sa.UniqueConstraint("job_id", "idx", name=op.f("uq_levels_job_id_idx")),
    )
    op.create_index(
        "uq_levels_job_id_running",
        "levels",
        ["job_id"],
        unique=True,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "chunks",
        sa.Column("id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("job_id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("level_id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("groups", postgresql.JSONB(), nullable=False),
        sa.Column("batch_split", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("priority", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("claim_token", sa.Uuid(), nullable=True),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("progress_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("crash_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("error_count", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("permanent", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("last_owner", sa.Text(), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("dispatches", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("seconds", sa.Double(), server_default=sa.text("0"), nullable=False),
        sa.Column("parent_id", sa.String(length=36, collation="C"), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(state IN ('pending', 'running')) = (finished_at IS NULL)", name=op.f("ck_chunks_finished")
        ),
        sa.CheckConstraint(
            "CASE WHEN state = 'running' THEN num_nulls(owner, claim_token, claimed_at, lease_expires_at) = 0 ELSE num_nonnulls(owner, claim_token, claimed_at, lease_expires_at) = 0 END",
            name=op.f("ck_chunks_claim"),
        ),
        sa.CheckConstraint(
            "kind IN ('dense', 'single', 'level', 'cost', 'held_out', 'result')", name=op.f("ck_chunks_kind")
        ),
        sa.CheckConstraint(
            "state IN ('pending', 'running', 'succeeded', 'failed', 'cancelled', 'superseded')",
            name=op.f("ck_chunks_state"),
        ),
        sa.CheckConstraint(
            "attempt >= 0 AND crash_count >= 0 AND error_count >= 0", name=op.f("ck_chunks_counts")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_chunks_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["level_id"], ["levels.id"], name=op.f("fk_chunks_level_id_levels"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chunks")),
        sa.UniqueConstraint("level_id", "seq", name=op.f("uq_chunks_level_id_seq")),
        postgresql_with={"fillfactor": "70"},
    )
    op.create_index(op.f("ix_chunks_job_id"), "chunks", ["job_id"], unique=False)
    op.create_index(
        "ix_chunks_open",
        "chunks",
        ["level_id"],
        unique=False,
        postgresql_where=sa.text("state IN ('pending', 'running')"),
    )
    op.create_index(
        "ix_chunks_pending",
        "chunks",
        [sa.literal_column("priority DESC"), "id"],
        unique=False,
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_chunks_running", "chunks", ["id"], unique=False, postgresql_where=sa.text("state = 'running'")
    )
    op.create_index(
        "uq_chunks_owner_running",
        "chunks",
        ["owner"],
        unique=True,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "attempts",
        sa.Column("claim_token", sa.Uuid(), nullable=False),
        sa.Column("chunk_id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("job_id", sa.String(length=36, collation="C"), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column(
            "ended_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "outcome IN ('succeeded', 'released', 'error', 'crashed', 'cancelled')",
            name=op.f("ck_attempts_outcome"),
        ),
        sa.ForeignKeyConstraint(
            ["chunk_id"], ["chunks.id"], name=op.f("fk_attempts_chunk_id_chunks"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("claim_token", name=op.f("pk_attempts")),
    )
    op.create_index(op.f("ix_attempts_chunk_id"), "attempts", ["chunk_id"], unique=False)
    op.create_index(op.f("ix_attempts_job_id"), "attempts", ["job_id"], unique=False)


def downgrade() -> None:
    for table in (
        "attempts",
        "chunks",
        "levels",
        "idempotency_keys",
        "findings",
        "events",
        "evaluations",
        "jobs",
        "tokens",
        "targets",
        "drafts",
        "domains",
        "calibration_sets",
        "workers",
        "users",
        "evaluation_cache",
        "audit",
    ):
        op.drop_table(table)
