"""The evaluation cache: figures shared across jobs, by content key and skip set."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import String, Text, any_, literal, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base, Created
from models.chunks import Keys, skip_key
from models.evaluations import FIGURES, Figures
from skipmap.profiling.records import Evaluation
from skipmap.skipset import SkipSet


class CachedEvaluation(Figures, Base):
    """Figures that any job with the same content key may take over."""

    __tablename__ = "evaluation_cache"

    content_key: Mapped[str] = mapped_column(String(collation="C"), primary_key=True)
    created_at: Mapped[Created]


_COLUMNS = ", ".join(FIGURES)
_ROWS_A_STATEMENT = 500

_TAKE = text(f"""
    INSERT INTO evaluations (job_id, skip, depth, cached, {_COLUMNS})
    SELECT :job_id, unit.skip, cardinality(unit.skip), true, {_COLUMNS}
    FROM evaluation_cache, LATERAL (
        SELECT coalesce(string_to_array(nullif(skip_key, 'dense'), ','), '{{}}')::smallint[] AS skip
    ) AS unit
    WHERE content_key = :content_key AND skip_key = ANY(CAST(:keys AS text[]))
    ON CONFLICT DO NOTHING
""")


def known_keys(session: Session, content_key: str, keys: Sequence[str]) -> set[str]:
    """Which of the configurations the cache holds."""
    found = session.scalars(
        select(CachedEvaluation.skip_key).where(
            CachedEvaluation.content_key == content_key,
            CachedEvaluation.skip_key == any_(literal(list(keys), ARRAY(Text))),
        )
    )
    return set(found)


def take_cached(session: Session, job_id: str, content_key: str, groups: Sequence[Keys]) -> list[Keys]:
    """Store for a job the groups that the cache holds whole, marked as cached; returns the other groups."""
    known = known_keys(session, content_key, [key for group in groups for key in group])
    whole = [group for group in groups if known.issuperset(group)]
    keys = [key for group in whole for key in group]
    # Rows hold all answers: one statement for a whole level would run into its time limit.
    for start in range(0, len(keys), _ROWS_A_STATEMENT):
        some = keys[start : start + _ROWS_A_STATEMENT]
        session.execute(_TAKE, {"job_id": job_id, "content_key": content_key, "keys": some})
    taken = set(whole)
    return [group for group in groups if group not in taken]


def look_up(session: Session, content_key: str, skip: SkipSet) -> tuple[Evaluation, float] | None:
    """One cached evaluation and the seconds that it took.

    A worker finds dense with it, whose content key is known only once the target is loaded.
    """
    row = session.get(CachedEvaluation, (content_key, skip_key(skip)))
    return None if row is None else (row.evaluation, row.seconds)
