"""Retention: removing what nobody will ask for again. Jobs go only where a setting says so."""

from __future__ import annotations

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from models.base import interval
from models.idempotency import forget_keys
from models.jobs import ENDED, Job
from models.settings import ServiceSettings

_DAY_SECONDS = 86400.0
_JOBS_AT_A_TIME = 20


def forget_old(session: Session, settings: ServiceSettings) -> int:
    """Remove some of the jobs that ended ``retain_days`` ago or earlier, and old idempotency keys.

    Returns how many jobs went; evaluations stay in the cache.
    """
    forget_keys(session, settings.retain_keys_days * _DAY_SECONDS)
    if settings.retain_days is None:
        return 0
    until = func.clock_timestamp() - interval(settings.retain_days * _DAY_SECONDS)
    old = select(Job.id).where(Job.state.in_(ENDED), Job.finished_at < until).limit(_JOBS_AT_A_TIME)
    removed = session.execute(
        delete(Job).where(Job.id.in_(old.with_for_update(key_share=True, skip_locked=True))).returning(Job.id)
    )
    return len(removed.all())
