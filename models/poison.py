"""Poison: chunks that keep killing their process are split until the culprit stands alone, then set aside."""

from __future__ import annotations

from sqlalchemy import func, or_, select, text, update
from sqlalchemy.orm import Session

from models.base import new_id
from models.chunks import MISSING_UNITS, Chunk, Keys, halves
from models.events import emit
from models.jobs import Job, JobState
from models.levels import Level
from models.settings import ServiceSettings

_MISSING = text(f"SELECT {MISSING_UNITS} FROM chunks AS c WHERE c.id = :id")
_ALIVE: tuple[JobState, ...] = ("running", "pausing", "paused")


def split_poison(session: Session, settings: ServiceSettings) -> int:
    """Replace chunks that crashed repeatedly by halves with fresh counters; returns how many.

    Groups are told apart first; then the group that kills its process is halved in order.
    """
    chunks = session.scalars(
        select(Chunk)
        .join(Job, Job.id == Chunk.job_id)
        .where(Chunk.state == "pending", Job.state.in_(_ALIVE), Chunk.crash_count >= settings.split_crashes)
        .order_by(Chunk.job_id, Chunk.id)
        .with_for_update(of=Chunk, key_share=True, skip_locked=True)
    ).all()
    return sum(_split(session, chunk) for chunk in chunks)


def dead_letter(session: Session, settings: ServiceSettings) -> int:
    """Set pending chunks aside that have used up their attempts; returns how many. Comes after ``split_poison``."""
    spent = (
        select(Chunk.id)
        .join(Job, Job.id == Chunk.job_id)
        .where(
            Chunk.state == "pending",
            Job.state.in_(_ALIVE),
            or_(
                Chunk.permanent,
                Chunk.crash_count >= settings.max_crashes,
                Chunk.error_count >= settings.max_errors,
            ),
        )
        .with_for_update(of=Chunk, key_share=True, skip_locked=True)
    )
    failed = session.execute(
        update(Chunk)
        .where(Chunk.id.in_(spent))
        .values(state="failed", finished_at=func.clock_timestamp())
        .returning(Chunk.id, Chunk.job_id, Chunk.groups, Chunk.last_error)
    ).all()
    for row in sorted(failed, key=lambda row: (row.job_id, row.id)):
        emit(
            session,
            row.job_id,
            "chunk",
            chunk=row.id,
            what="failed",
            units=[key for keys in row.groups for key in keys],
            error=row.last_error,
        )
    return len(failed)


def _split(session: Session, chunk: Chunk) -> bool:
    missing = set(session.scalar(_MISSING, {"id": chunk.id}) or ())
    groups = [tuple(keys) for keys in chunk.groups if not missing.isdisjoint(keys)]
    parts, within = _parts(session, chunk, groups)
    if groups and not parts:
        return False
    level = session.scalars(
        select(Level).where(Level.id == chunk.level_id).with_for_update(key_share=True)
    ).one()
    seq = session.scalar(select(func.max(Chunk.seq)).where(Chunk.level_id == level.id)) or 0
    ended = {"state": "superseded", "finished_at": func.clock_timestamp()}
    session.execute(update(Chunk).where(Chunk.id == chunk.id, Chunk.state == "pending").values(ended))
    for offset, part in enumerate(parts, start=1):
        session.add(
            Chunk(
                id=new_id(),
                job_id=chunk.job_id,
                level_id=chunk.level_id,
                seq=seq + offset,
                kind=chunk.kind,
                groups=[list(keys) for keys in part],
                batch_split=chunk.batch_split or within,
                priority=chunk.priority,
                state="pending",
                parent_id=chunk.id,
            )
        )
    if within and chunk.kind == "held_out":
        # A halved run of prompts is two units.
        session.execute(update(Level).where(Level.id == level.id).values(size=Level.size + 1))
    session.flush()
    emit(session, chunk.job_id, "chunk", chunk=chunk.id, what="split", parts=len(parts))
    return True


def _parts(session: Session, chunk: Chunk, groups: list[Keys]) -> tuple[list[list[Keys]], bool]:
    """Two parts of what is not stored, and whether they lie within a group; no parts where nothing can be split."""
    if len(groups) > 1:
        middle = len(groups) // 2
        return [groups[:middle], groups[middle:]], False
    if not groups:
        return [], False
    if chunk.kind == "held_out" and _carries_state(session, chunk.job_id):
        return [], False
    both = halves(chunk.kind, groups[0])
    return ([[half] for half in both], True) if both else ([], False)


def _carries_state(session: Session, job_id: str) -> bool:
    return session.get_one(Job, job_id).parsed_spec.draft.state == "run"
