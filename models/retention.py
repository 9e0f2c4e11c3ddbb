"""Retention: removing what nobody will ask for again. Jobs go only where a setting says so."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from models.base import interval
from models.control import delete_job
from models.database import Database
from models.errors import Conflict
from models.idempotency import forget_keys
from models.jobs import ENDED, Job
from models.marks import forget_marks
from models.nodes import forget_nodes
from models.removal import empty_job
from models.sessions import forget_sessions
from models.settings import ServiceSettings
from skipmap.errors import NotFound

_DAY_SECONDS = 86400.0
_SESSION_DAYS = 30
"""How long a session is kept after its end."""
_JOBS_AT_A_TIME = 20
_SECONDS_AT_A_TIME = 2.0


def forget_old(database: Database, settings: ServiceSettings) -> int:
    """Remove some of the jobs that ended ``retain_days`` ago or earlier, and what is old beside them.

    That is idempotency keys, marks of forms, silent nodes, and sessions that have ended. Returns how many jobs went;
    evaluations stay in the cache. A large job may take several calls, of seconds each.
    """
    database.transaction(forget_keys, settings.retain_keys_days * _DAY_SECONDS)
    database.transaction(forget_marks, settings.retain_keys_days * _DAY_SECONDS)
    database.transaction(forget_nodes, settings.retain_nodes_days * _DAY_SECONDS)
    database.transaction(forget_sessions, _SESSION_DAYS * _DAY_SECONDS)
    if settings.retain_days is None:
        return 0
    until = time.monotonic() + _SECONDS_AT_A_TIME
    gone = 0
    for job_id in database.read(_old_jobs, settings.retain_days * _DAY_SECONDS):
        # Another reconciler may have removed it meanwhile, or a user may have begun it again.
        with suppress(NotFound, Conflict):
            if not empty_job(database, job_id, max(0.0, until - time.monotonic())):
                break
            database.transaction(delete_job, job_id)
            gone += 1
        if time.monotonic() > until:
            break
    return gone


def _old_jobs(session: Session, seconds: float) -> Sequence[str]:
    until = func.clock_timestamp() - interval(seconds)
    return session.scalars(
        select(Job.id)
        .where(Job.state.in_(ENDED), Job.finished_at < until)
        .order_by(Job.finished_at)
        .limit(_JOBS_AT_A_TIME)
    ).all()
