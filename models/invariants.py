"""What must hold of the stored rows at any time, checked by one statement and by replaying the search."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from models.base import one_of
from models.chunks import MISSING_UNITS, OPEN, skip_of
from models.evaluations import scores_of
from models.jobs import ENDED, Job
from models.levels import EVALUATED_KINDS, SEARCH_KINDS, Level
from models.ranks import RankRow
from skipmap.errors import SkipmapError
from skipmap.profiling.pareto import Score
from skipmap.profiling.search import DENSE, Outcome, next_work
from skipmap.skipset import SkipSet

_EVALUATED = one_of("l.kind", EVALUATED_KINDS)

RULES = {
    "a running chunk has owner, token and lease, and no other has": """
        SELECT c.id FROM chunks AS c
        WHERE (c.state = 'running') <> (num_nonnulls(c.owner, c.claim_token, c.claimed_at, c.lease_expires_at) = 4)
    """,
    "a worker owns at most one chunk": """
        SELECT min(c.id) FROM chunks AS c WHERE c.state = 'running' GROUP BY c.owner HAVING count(*) > 1
    """,
    "a configuration has at most one row in a job": """
        SELECT e.job_id || ' ' || e.skip_key FROM evaluations AS e GROUP BY e.job_id, e.skip_key HAVING count(*) > 1
    """,
    "levels are numbered from 0 without gaps": """
        SELECT l.job_id FROM levels AS l GROUP BY l.job_id
        HAVING min(l.idx) <> 0 OR max(l.idx) + 1 <> count(*) OR count(DISTINCT l.idx) <> count(*)
    """,
    "all levels but the last are done": """
        SELECT l.id FROM levels AS l
        WHERE l.state <> 'done' AND EXISTS (SELECT FROM levels AS m WHERE m.job_id = l.job_id AND m.idx > l.idx)
    """,
    "a job and its last level agree": """
        SELECT j.id FROM jobs AS j LEFT JOIN LATERAL (
            SELECT l.state FROM levels AS l WHERE l.job_id = j.id ORDER BY l.idx DESC LIMIT 1
        ) AS last ON true
        WHERE last.state IS DISTINCT FROM CASE j.state
            WHEN 'succeeded' THEN 'done' WHEN 'failed' THEN 'failed' WHEN 'cancelled' THEN 'cancelled' ELSE 'running'
        END
    """,
    "a level that has ended has no open chunk": f"""
        SELECT c.id FROM chunks AS c JOIN levels AS l ON l.id = c.level_id
        WHERE l.state <> 'running' AND {one_of("c.state", OPEN)}
    """,
    "a failed level says why": """
        SELECT l.id FROM levels AS l JOIN jobs AS j ON j.id = l.job_id
        WHERE l.state = 'failed' AND j.error IS NULL
    """,
    "no chunk of a level that is done has failed": """
        SELECT c.id FROM chunks AS c JOIN levels AS l ON l.id = c.level_id
        WHERE l.state = 'done' AND c.state = 'failed'
    """,
    "a succeeded chunk has all its units stored": f"""
        SELECT c.id FROM chunks AS c WHERE c.state = 'succeeded' AND cardinality({MISSING_UNITS}) > 0
    """,
    "a level that is done has all its units stored, unless max_seconds cut it": f"""
        SELECT l.id FROM levels AS l JOIN jobs AS j ON j.id = l.job_id
        WHERE l.state = 'done' AND j.max_seconds IS NULL AND l.size <> CASE WHEN {_EVALUATED}
            THEN (SELECT count(*) FROM evaluations AS e WHERE e.job_id = l.job_id AND e.depth = l.depth)
            WHEN l.kind = 'rank' THEN (SELECT count(*) FROM ranks AS r WHERE r.job_id = l.job_id AND r.depth = l.depth)
            ELSE (SELECT count(*) FROM findings AS f WHERE f.job_id = l.job_id AND f.kind = l.kind) END
    """,
    "an evaluation belongs to a chunk of its level or comes from the cache": f"""
        SELECT e.job_id || ' ' || e.skip_key FROM evaluations AS e
        WHERE NOT EXISTS (
            SELECT FROM levels AS l WHERE l.job_id = e.job_id AND l.depth = e.depth AND {_EVALUATED})
        OR NOT e.cached AND NOT EXISTS (
            SELECT FROM chunks AS c WHERE c.id = e.chunk_id AND c.job_id = e.job_id
            AND jsonb_path_exists(c.groups, '$[*][*] ? (@ == $key)', jsonb_build_object('key', e.skip_key)))
    """,
    "a ranking figure belongs to a chunk that ranks": """
        SELECT r.job_id || ' ' || r.skip_key FROM ranks AS r
        WHERE NOT EXISTS (
            SELECT FROM chunks AS c JOIN levels AS l ON l.id = c.level_id
            WHERE c.id = r.chunk_id AND c.job_id = r.job_id AND l.kind = 'rank' AND l.depth = r.depth
            AND jsonb_path_exists(c.groups, '$[*][*] ? (@ == $key)', jsonb_build_object('key', r.skip_key)))
    """,
    "what a split chunk held is stored or lies in its parts": f"""
        SELECT c.id FROM chunks AS c, unnest({MISSING_UNITS}) AS missing(key)
        WHERE c.state = 'superseded' AND c.kind <> 'held_out' AND NOT EXISTS (
            SELECT FROM chunks AS part WHERE part.parent_id = c.id
            AND jsonb_path_exists(part.groups, '$[*][*] ? (@ == $key)', jsonb_build_object('key', missing.key)))
    """,
    "attempts are crashes, errors and the current or last one": """
        SELECT c.id FROM chunks AS c
        WHERE c.state IN ('pending', 'failed') AND c.attempt <> c.crash_count + c.error_count
        OR c.state IN ('running', 'succeeded') AND c.attempt <> c.crash_count + c.error_count + 1
    """,
    "a chunk succeeds once": """
        SELECT a.chunk_id FROM attempts AS a WHERE a.outcome = 'succeeded' GROUP BY a.chunk_id HAVING count(*) > 1
    """,
    "a chunk has succeeded where an attempt says so": """
        SELECT a.chunk_id FROM attempts AS a JOIN chunks AS c ON c.id = a.chunk_id
        WHERE a.outcome = 'succeeded' AND c.state <> 'succeeded'
    """,
    "a job that has ended has no open chunk": f"""
        SELECT j.id FROM jobs AS j
        WHERE {one_of("j.state", ENDED)}
        AND EXISTS (SELECT FROM chunks AS c WHERE c.job_id = j.id AND {one_of("c.state", OPEN)})
    """,
    "events of a job are numbered from 1 without gaps": """
        SELECT j.id FROM jobs AS j
        WHERE j.last_event <> (SELECT count(*) FROM events AS e WHERE e.job_id = j.id)
        OR j.last_event <> (SELECT coalesce(max(e.seq), 0) FROM events AS e WHERE e.job_id = j.id)
    """,
}

CHECK = text(
    "\nUNION ALL\n".join(
        f"SELECT '{rule}' AS rule, broken.id::text AS id FROM ({query}) AS broken(id)"
        for rule, query in RULES.items()
    )
)


def broken_rules(session: Session) -> list[str]:
    """Rules that do not hold, each with what breaks it; empty when all is well."""
    return [f"{rule}: {found}" for rule, found in session.execute(CHECK)]


def broken_levels(session: Session, job_id: str) -> list[str]:
    """Levels of a job that are not what the search asks for, given the rows of the levels before; empty when all are.

    Jobs with ``search.max_seconds`` are passed over: where they are cut is a matter of speed.
    """
    job = session.get_one(Job, job_id)
    facts = job.parsed_facts
    if facts is None or job.max_seconds is not None:
        return []
    spec = job.parsed_spec.search
    scores, ranks = scores_of(session, job_id, spec.accept_measure), _ranks_by_depth(session, job_id)
    levels = session.scalars(
        select(Level).where(Level.job_id == job_id, Level.kind.in_(SEARCH_KINDS)).order_by(Level.idx)
    ).all()
    found: list[str] = []
    seen: dict[SkipSet, Score] = {}
    ranked: dict[SkipSet, float] = {}
    no_signal = DENSE in scores and scores[DENSE].metric <= facts.baseline
    for level in levels:
        try:
            step = next_work(spec, facts.num_layers, seen, ranked, no_signal=no_signal)
        except SkipmapError as error:
            return [*found, f"level {level.idx}: {error}"]
        wanted = set() if isinstance(step, Outcome) else {skip for group in step.groups for skip in group}
        if not isinstance(step, Outcome) and (step.kind, step.level) != (level.kind, level.depth):
            found.append(
                f"level {level.idx}: {level.kind} {level.depth} in place of {step.kind} {step.level}"
            )
        new: dict[SkipSet, Any] = (
            ranks.get(level.depth, {})
            if level.kind == "rank"
            else {skip: score for skip, score in scores.items() if len(skip) == level.depth}
        )
        extra, missing = new.keys() - wanted, wanted - new.keys()
        if extra or (missing and level.state == "done"):
            found.append(f"level {level.idx}: {len(extra)} extra, {len(missing)} missing")
        (ranked if level.kind == "rank" else seen).update(new)
    return found


def _ranks_by_depth(session: Session, job_id: str) -> dict[int | None, dict[SkipSet, float]]:
    rows = session.scalars(select(RankRow).where(RankRow.job_id == job_id))
    found: dict[int | None, dict[SkipSet, float]] = defaultdict(dict)
    for row in rows:
        found[row.depth][skip_of(row.skip_key)] = row.value
    return found
