"""What the owner of a chunk may do with it. Every statement checks the claim token; a stale owner changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from models.base import clean, one_of
from models.chunks import Chunk, skip_key
from models.claim import Claim
from models.ending import BACKOFF, MINE, end_claim, ending
from models.errors import LostLease, TargetChanged
from models.evaluations import FIGURES, columns_of
from models.jobs import Facts, Job, JobState
from models.levels import CUT_KINDS, SEARCH_KINDS
from models.settings import ServiceSettings
from skipmap.profiling.records import Evaluation
from skipmap.skipset import SkipSet

_LONGEST_ERROR = 4000

StopReason = Literal["cancel", "time", "pause", "drain"]


@dataclass(frozen=True)
class Beat:
    """What a renewed lease brings back."""

    job_state: JobState
    draining: bool
    out_of_time: bool
    """Whether the job has spent its ``search.max_seconds``."""

    @property
    def stop(self) -> StopReason | None:
        """Why to stop at the next forward, if so: then call ``stop`` with it."""
        if self.job_state not in ("running", "pausing", "paused"):
            return "cancel"
        if self.out_of_time:
            return "time"
        if self.job_state != "running":
            return "pause"
        return "drain" if self.draining else None


OVER_TIME = f"""(
    j.max_seconds IS NOT NULL AND :spent + (
        SELECT sum(s.seconds) FROM chunks AS s WHERE s.job_id = j.id AND {one_of("s.kind", SEARCH_KINDS)}
    ) >= j.max_seconds)"""

_RENEW = f"""
    mine AS (
        UPDATE chunks AS c SET
            lease_expires_at = clock_timestamp() + make_interval(secs => :lease),
            progress_at = CASE WHEN :progress THEN clock_timestamp() ELSE c.progress_at END,
            seconds = c.seconds + :spent
        WHERE {MINE} AND c.state = 'running'
        RETURNING c.id, c.job_id, c.kind, c.owner, c.claim_token
    ), me AS (
        UPDATE workers AS w SET seen_at = clock_timestamp() FROM mine WHERE w.owner = mine.owner
        RETURNING w.draining
    )"""
_BEAT = f"""
    SELECT j.state, coalesce((SELECT draining FROM me), false), {one_of("mine.kind", CUT_KINDS)} AND {OVER_TIME}
    FROM mine JOIN jobs AS j ON j.id = mine.job_id"""

_COLUMNS = ", ".join(FIGURES)
_VALUES = ", ".join(f"given.{name}" for name in FIGURES)
_ARRAYS = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in FIGURES.items())

_HEARTBEAT = text(f"WITH {_RENEW} {_BEAT}")
_LOOK = text(f"""
    SELECT j.state, coalesce((SELECT draining FROM workers AS w WHERE w.owner = c.owner), false),
        {one_of("c.kind", CUT_KINDS)} AND {OVER_TIME}
    FROM chunks AS c JOIN jobs AS j ON j.id = c.job_id WHERE {MINE} AND c.state = 'running'
""")
_FLUSH = text(f"""
    WITH {_RENEW}, given AS (
        SELECT * FROM unnest({_ARRAYS}) AS given({_COLUMNS})
    ), stored AS (
        INSERT INTO evaluations (job_id, skip, depth, cached, chunk_id, claim_token, owner, {_COLUMNS})
        SELECT mine.job_id, unit.skip, cardinality(unit.skip), :cached, mine.id, mine.claim_token, mine.owner, {_VALUES}
        FROM mine CROSS JOIN given CROSS JOIN LATERAL (
            SELECT coalesce(string_to_array(nullif(given.skip_key, 'dense'), ','), '{{}}')::smallint[] AS skip
        ) AS unit
        ON CONFLICT DO NOTHING
        RETURNING skip_key
    ), shared AS (
        INSERT INTO evaluation_cache (content_key, {_COLUMNS})
        SELECT j.content_key, {_VALUES}
        FROM mine JOIN jobs AS j ON j.id = mine.job_id AND j.content_key IS NOT NULL AND NOT :cached
        CROSS JOIN given JOIN stored ON stored.skip_key = given.skip_key
        ON CONFLICT DO NOTHING
    )
    {_BEAT}
""")
_RANK = text(f"""
    WITH {_RENEW}, given AS (
        SELECT * FROM unnest(CAST(:skip_key AS text[]), CAST(:value AS float8[])) AS given(skip_key, value)
    ), stored AS (
        INSERT INTO ranks (job_id, skip_key, depth, value, seconds, chunk_id, claim_token, owner)
        SELECT mine.job_id, given.skip_key, :depth, given.value, :share, mine.id, mine.claim_token, mine.owner
        FROM mine CROSS JOIN given
        ON CONFLICT DO NOTHING
    )
    {_BEAT}
""")
_STORE = text(f"""
    WITH {_RENEW}, stored AS (
        INSERT INTO findings (job_id, kind, key, payload, seconds, chunk_id, claim_token, owner)
        SELECT mine.job_id, mine.kind, :key, CAST(:payload AS json), :spent, mine.id, mine.claim_token, mine.owner
        FROM mine
        ON CONFLICT DO NOTHING
    )
    {_BEAT}
""")


def heartbeat(session: Session, settings: ServiceSettings, claim: Claim) -> Beat:
    """Renew the lease; call it only while forwards finish. Raises LostLease."""
    return _beat(session, _HEARTBEAT, settings, claim, progress=False, spent=0.0)


def look(session: Session, claim: Claim) -> Beat:
    """What ``heartbeat`` brings back, without renewing the lease. Raises LostLease."""
    return _beat_of(session, _LOOK, claim, spent=0.0)


def flush(
    session: Session,
    settings: ServiceSettings,
    claim: Claim,
    evaluations: Sequence[Evaluation],
    seconds: float,
    *,
    cached: bool = False,
) -> Beat:
    """Store one evaluated group whole and renew the lease, in one statement; values stored before stay.

    ``seconds`` it took. ``cached``: the figures come from the cache. Raises LostLease, and then stores nothing.
    """
    _check_group(claim, (evaluation.skip for evaluation in evaluations))
    if claim.batch_split:
        evaluations = [replace(evaluation, batch_split=True) for evaluation in evaluations]
    columns = columns_of(evaluations, seconds)
    spent = 0.0 if cached else seconds
    return _beat(session, _FLUSH, settings, claim, progress=True, spent=spent, cached=cached, **columns)


def store_ranks(
    session: Session, settings: ServiceSettings, claim: Claim, values: Mapping[SkipSet, float], seconds: float
) -> Beat:
    """Store the ranking figures of one group whole, like ``flush``."""
    _check_group(claim, values)
    columns = {
        "skip_key": [skip_key(skip) for skip in values],
        "value": list(values.values()),
        "depth": claim.depth,
        "share": seconds / len(values),
    }
    return _beat(session, _RANK, settings, claim, progress=True, spent=seconds, **columns)


def store_finding(
    session: Session,
    settings: ServiceSettings,
    claim: Claim,
    key: str,
    payload: Mapping[str, Any],
    seconds: float,
) -> Beat:
    """Store what a unit of kind ``cost``, ``held_out`` or ``result`` found, like ``flush``.

    Of cost the search needs ``points``: the skip sets, as lists, that the held-out check is to compare with dense.
    """
    if (key,) not in claim.groups or claim.kind in SEARCH_KINDS:
        raise ValueError(f"{key!r} is no unit of chunk {claim.chunk_id}")
    document = json.dumps(payload, allow_nan=False)
    return _beat(session, _STORE, settings, claim, progress=True, spent=seconds, key=key, payload=document)


def pin_target(session: Session, claim: Claim, facts: Facts) -> Facts:
    """Note what this worker's target and data are, or check them against what the job's first worker noted.

    From then on only workers of the same device class and engine version get chunks of the job. Raises TargetChanged
    when evaluations would not be comparable, and LostLease.
    """
    mine = session.scalar(
        select(Chunk.id)
        .where(Chunk.id == claim.chunk_id, Chunk.claim_token == claim.token, Chunk.state == "running")
        .with_for_update(key_share=True)
    )
    if mine is None:
        raise LostLease(f"chunk {claim.chunk_id} is no longer this worker's; drop it and claim another")
    session.execute(
        update(Job)
        .where(Job.id == claim.job_id, Job.facts.is_(None))
        .values(
            facts=facts.to_json(),
            content_key=facts.content_key,
            device_class=facts.device_class,
            engine=facts.engine,
        )
    )
    noted = Facts.from_json(
        session.execute(select(Job.facts).where(Job.id == claim.job_id)).scalar_one() or {}
    )
    if (noted.content_key, noted.data_digest) != (facts.content_key, facts.data_digest):
        raise TargetChanged(
            f"job {claim.job_id} was begun with target {noted.fingerprint[:12]}; this worker's is "
            f"{facts.fingerprint[:12]}, or its data, dtype or device differ; give all workers the same files"
        )
    return noted


_RELEASE = ending("released", MINE, "state = 'pending', attempt = c.attempt - 1, dispatched_at = NULL")
_FAIL = ending(
    "error",
    MINE,
    "state = 'pending', error_count = c.error_count + 1, last_owner = c.owner, permanent = :permanent, "
    f"last_error = :error, dispatched_at = NULL, not_before = {BACKOFF.format(count='c.error_count')}",
    error=":error",
)
_ABANDON = ending(
    "cancelled", f"{MINE} AND j.state = 'cancelling'", "state = 'cancelled', finished_at = clock_timestamp()"
)
_CUT = ending(
    "cancelled",
    f"{MINE} AND {one_of('c.kind', CUT_KINDS)} AND {OVER_TIME}",
    "state = 'cancelled', finished_at = clock_timestamp()",
)


def release(session: Session, claim: Claim) -> None:
    """Give the chunk back unspent, as on drain and pause; stored groups stay. Raises LostLease."""
    end_claim(session, claim, "released", _RELEASE)


def fail(
    session: Session, settings: ServiceSettings, claim: Claim, error: str, *, permanent: bool = False
) -> None:
    """Give the chunk back after an exception, for a later attempt; none follows a ``permanent`` one.

    Raises LostLease.
    """
    values = {"backoff": settings.backoff_seconds, "backoff_cap": settings.backoff_cap_seconds}
    end_claim(
        session, claim, "error", _FAIL, error=clean(error)[:_LONGEST_ERROR], permanent=permanent, **values
    )


def stop(session: Session, claim: Claim, reason: StopReason) -> None:
    """Leave the chunk for the reason that a beat gave; after ``time``, call ``try_advance``. Raises LostLease."""
    if reason == "cancel":
        end_claim(session, claim, "cancelled", _ABANDON)
    elif reason == "time":
        end_claim(session, claim, "cancelled", _CUT, spent=0.0)
    else:
        release(session, claim)


def _check_group(claim: Claim, skips: Iterable[SkipSet]) -> None:
    if {skip_key(skip) for skip in skips} not in [set(keys) for keys in claim.groups]:
        raise ValueError(f"these configurations are no group of chunk {claim.chunk_id}")


def _beat(session: Session, statement: Any, settings: ServiceSettings, claim: Claim, **values: Any) -> Beat:
    return _beat_of(session, statement, claim, lease=settings.lease_seconds, **values)


def _beat_of(session: Session, statement: Any, claim: Claim, **values: Any) -> Beat:
    row = session.execute(statement, {"chunk_id": claim.chunk_id, "token": claim.token, **values}).first()
    if row is None:
        raise LostLease(f"chunk {claim.chunk_id} is no longer this worker's; drop it and claim another")
    return Beat(*row)
