"""Strategies: how a job searches, levels that rank blocks, and their figures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_KINDS = ("dense", "single", "level", "rank", "cost", "held_out", "result")
_OLD_KINDS = ("dense", "single", "level", "cost", "held_out", "result")
_OF_SEARCH = ("dense", "single", "level", "rank")
_OLD_OF_SEARCH = ("dense", "single", "level")

# What the release before does not know goes, and the level before takes over how the job stands: where that release
# advances the job, it finds that it cannot read the spec, and says so. Rows keep their numbers without gaps.
_FORGET_RANKING = (
    """
    WITH gone AS (
        DELETE FROM levels WHERE kind = 'rank' RETURNING job_id, idx, state, finished_at
    ), ended AS (
        SELECT DISTINCT ON (gone.job_id) l.id, gone.state, gone.finished_at
        FROM gone JOIN levels AS l ON l.job_id = gone.job_id AND l.kind <> 'rank' AND l.idx < gone.idx
        WHERE gone.state <> 'done' ORDER BY gone.job_id, l.idx DESC
    )
    UPDATE levels AS l SET state = ended.state, finished_at = ended.finished_at FROM ended WHERE l.id = ended.id
    """,
    """
    CREATE TEMPORARY TABLE numbered ON COMMIT DROP AS
    SELECT id, row_number() OVER (PARTITION BY job_id ORDER BY idx) - 1 AS idx, max(idx) OVER (PARTITION BY job_id) AS most
    FROM levels
    """,
    # First out of each other's way: no two levels of a job may have one number for a moment.
    "UPDATE levels AS l SET idx = n.most + 1 + n.idx FROM numbered AS n WHERE n.id = l.id AND l.idx <> n.idx",
    "UPDATE levels AS l SET idx = n.idx FROM numbered AS n WHERE n.id = l.id AND l.idx <> n.idx",
    # Its pages put no other kinds into words.
    """UPDATE events SET payload = payload || '{"kind": "level"}' WHERE payload->>'kind' = 'rank'""",
)


def _id(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=36, collation="C"), nullable=False)


def _one_of(column: str, values: tuple[str, ...]) -> str:
    listed = ", ".join(f"'{value}'" for value in values)
    return f"{column} IN ({listed})"


def _set_kinds(kinds: tuple[str, ...], of_search: tuple[str, ...]) -> None:
    for table in ("levels", "chunks"):
        op.drop_constraint(op.f(f"ck_{table}_kind"), table, type_="check")
        op.create_check_constraint(op.f(f"ck_{table}_kind"), table, _one_of("kind", kinds))
    op.drop_constraint(op.f("ck_levels_depth"), "levels", type_="check")
    op.create_check_constraint(
        op.f("ck_levels_depth"), "levels", f"({_one_of('kind', of_search)}) = (depth IS NOT NULL)"
    )


def upgrade() -> None:
    op.add_column("jobs", sa.Column("strategy", sa.Text(), server_default=sa.text("'tss'"), nullable=False))
    op.create_index(op.f("ix_jobs_strategy_id"), "jobs", ["strategy", "id"], unique=False)
    _set_kinds(_KINDS, _OF_SEARCH)
    op.create_table(
        "ranks",
        _id("job_id"),
        sa.Column("skip_key", sa.String(collation="C"), nullable=False),
        sa.Column("depth", sa.SmallInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        _id("chunk_id"),
        sa.Column("claim_token", sa.Uuid(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint("depth > 0", name=op.f("ck_ranks_depth")),
        sa.CheckConstraint("value > '-Infinity' AND value < 'Infinity'", name=op.f("ck_ranks_value")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_ranks_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "skip_key", name=op.f("pk_ranks")),
    )


def downgrade() -> None:
    op.drop_table("ranks")
    for statement in _FORGET_RANKING:
        op.execute(statement)
    _set_kinds(_OLD_KINDS, _OLD_OF_SEARCH)
    op.drop_index(op.f("ix_jobs_strategy_id"), table_name="jobs")
    op.drop_column("jobs", "strategy")
