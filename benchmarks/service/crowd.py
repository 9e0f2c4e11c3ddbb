"""A service with much in it: 10,000 jobs, one of them with 20,000 configurations, a map, and 500 nodes."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations, islice

import structlog
from sqlalchemy import text
from sqlalchemy.orm import Session

from api.app import create_app
from api.service import NAME
from api.settings import ApiSettings
from benchmarks.service.stage import Stage, stage
from models.base import new_id
from models.chunks import skip_key
from models.database import Database
from models.nodes import store_report
from models.settings import ServiceSettings
from skipmap.maps.keys import DEFAULT_KEY_FILE, new_key_file
from skipmap.serving.report import DomainCounters, NodeReport
from skipmap.settings import Settings
from skipmap.skipset import SkipSet
from tests.web.browser.results import BLOCKS, FINGERPRINT, document_of, like_a_model
from tests.web.browser.words import PLAIN
from tests.web.browser.world import MAP, Builder, World

JOBS = 10_000
EVALUATIONS = 20_000
NODES = 500
_OF_A_JOB = 30
_POOL = 18
_PROMPTS = 10
_ROWS = 1000

# Copies of a finished job, with its levels, and its evaluations of single blocks.
_FILL = (
    """
    INSERT INTO jobs (id, state, spec, spec_digest, name, labels, target, draft, domain, priority, outcome, facts,
        content_key, device_class, engine, best, last_event, created_by, calibration_set_id, finished_at, created_at,
        updated_at)
    SELECT crowd_id(n), state, spec, md5(n::text), 'job ' || n, jsonb_build_object('team', 't' || n % 10), target,
        (ARRAY['prompt_lookup', 'sam'])[n % 2 + 1], (ARRAY['qa', 'mmlu', 'math'])[n % 3 + 1], 5, outcome, facts,
        content_key, device_class, engine, best, last_event, created_by, calibration_set_id, clock_timestamp(),
        clock_timestamp() - make_interval(secs => :jobs - n), clock_timestamp()
    FROM jobs, generate_series(1, :jobs) AS n WHERE id = :job
    """,
    """
    INSERT INTO levels (id, job_id, idx, kind, depth, state, size, done, feasible, pace, plan, created_at, finished_at)
    SELECT crowd_id(:jobs + n * 10 + idx), crowd_id(n), idx, kind, depth, state, size, done, feasible, pace, plan,
        created_at, finished_at
    FROM levels, generate_series(1, :jobs) AS n WHERE job_id = :job
    """,
    """
    INSERT INTO evaluations (job_id, skip_key, skip, depth, accept_length, accepted_drafts, steps, metric, evaluator,
        batch_split, seconds, figures, prompts, created_at)
    SELECT crowd_id(n), skip_key, skip, depth, accept_length, accepted_drafts, steps, metric, evaluator,
        batch_split, seconds, figures, '[]', created_at
    FROM evaluations, generate_series(1, :jobs) AS n WHERE job_id = :job AND depth = 1
    """,
    """
    INSERT INTO findings (job_id, kind, key, payload, seconds, created_at)
    SELECT crowd_id(n), kind, key, payload, seconds, created_at
    FROM findings, generate_series(1, :jobs, 100) AS n WHERE job_id = :job
    """,
)
_ADD = """
    INSERT INTO evaluations (job_id, skip_key, skip, depth, accept_length, accepted_drafts, steps, metric, evaluator,
        batch_split, seconds, figures, prompts)
    SELECT :job, key, string_to_array(key, ',')::smallint[], cardinality(string_to_array(key, ',')), accept, accept - 1,
        400, metric, 'replay', false, 1, CAST(:figures AS jsonb), CAST(:prompts AS json)
    FROM unnest(CAST(:keys AS text[]), CAST(:accepts AS float8[]), CAST(:metrics AS float8[])) AS t(key, accept, metric)
    ON CONFLICT DO NOTHING
"""
# The job was three blocks deep.
_SHIFT = "UPDATE levels SET idx = idx + :more WHERE job_id = :job AND depth IS NULL"
_LEVEL = """
    INSERT INTO levels (id, job_id, idx, kind, depth, state, size, done, feasible, finished_at)
    VALUES (:id, :job, :depth, CASE WHEN :depth = 1 THEN 'single' ELSE 'level' END, :depth, 'done', :size, :size,
        :size / 2, clock_timestamp())
    ON CONFLICT (job_id, idx) DO UPDATE SET size = :size, done = :size, feasible = :size / 2
"""
_FIGURES = {
    "tree_size": 5,
    "accepted_histogram": [200, 120, 80],
    "proposed_histogram": [90, 310],
    "idle_prompts": 0,
}


@dataclass(frozen=True)
class Crowd:
    """The stage, what is stored, and the large job."""

    on: Stage
    world: World
    large: str


@contextmanager
def crowd() -> Iterator[Crowd]:
    """Store everything, on servers that end with the block."""
    # A line a request would stand among the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with stage() as on:
        keys = new_key_file(on.folder / "home" / DEFAULT_KEY_FILE)
        app = create_app(on.settings, ApiSettings(), Settings(home=on.folder / "home"))
        service = app.extensions[NAME]
        try:
            world = Builder(app, on.database, on.settings, keys, PLAIN).build()
        finally:
            for part in (service.database, service.reports, service.broker):
                part.close()
        patient = ServiceSettings(
            database_url=on.settings.database_url, idle_timeout_seconds=600, retry_seconds=0
        )
        database = Database(patient)
        try:
            database.transaction(_fill, world.jobs["other"])
            database.transaction(_grow, world.jobs["succeeded"])
        finally:
            database.close()
        _report(on, world)
        for table in ("jobs", "levels", "evaluations", "findings", "nodes"):
            on.sql(f"ANALYZE {table}")
        yield Crowd(on, world, world.jobs["succeeded"])


def _fill(session: Session, job_id: str) -> None:
    session.execute(text("SET LOCAL statement_timeout = 0"))
    session.execute(
        text(
            "CREATE FUNCTION crowd_id(n bigint) RETURNS text LANGUAGE sql IMMUTABLE AS "
            "$$ SELECT '01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') $$"
        )
    )
    for statement in _FILL:
        session.execute(text(statement), {"jobs": JOBS, "job": job_id})


def _grow(session: Session, job_id: str) -> None:
    """Let a job have evaluated everything of a large pool, one and up to six blocks at a time."""
    table = like_a_model(1)
    pool = sorted(sorted(range(BLOCKS), key=lambda block: -table(SkipSet.of((block,))).metric)[:_POOL])
    singles = (SkipSet.of((block,)) for block in range(BLOCKS))
    deeper = (SkipSet.of(skip) for depth in range(2, 7) for skip in combinations(pool, depth))
    skips = [*singles, *islice(deeper, EVALUATIONS - BLOCKS)]
    found = {skip: table(skip) for skip in (SkipSet.of(()), *skips)}
    prompt = {
        "id": "item-1",
        "steps": 40,
        "emitted": 80,
        "accepted": 40,
        "new_tokens": 81,
        "stats": [0.4],
        "text": "Three hens, said Anna, and two geese that she had bought on Tuesday.",
    }
    fixed = {
        "job": job_id,
        "figures": json.dumps(_FIGURES),
        "prompts": json.dumps([prompt | {"id": f"item-{number}"} for number in range(_PROMPTS)]),
    }
    for start in range(0, len(skips), _ROWS):
        rows = skips[start : start + _ROWS]
        values = {
            "keys": [skip_key(skip) for skip in rows],
            "accepts": [found[skip].accept for skip in rows],
            "metrics": [found[skip].metric for skip in rows],
        }
        session.execute(text(_ADD), fixed | values)
    sizes = Counter(len(skip) for skip in skips)
    session.execute(text(_SHIFT), {"job": job_id, "more": max(sizes) - 3})
    for depth, size in sizes.items():
        session.execute(text(_LEVEL), {"id": new_id(), "job": job_id, "depth": depth, "size": size})
    (spec,) = session.execute(text("SELECT spec FROM jobs WHERE id = :job"), {"job": job_id}).one()
    session.execute(
        text("UPDATE findings SET payload = CAST(:payload AS json) WHERE kind = 'result' AND job_id = :job"),
        {"payload": json.dumps({"document": document_of(spec, found)}), "job": job_id},
    )


def _report(on: Stage, world: World) -> None:
    """All nodes report once, a tenth of them an older version."""
    now = datetime.now(UTC)
    digests: dict[int, str] = dict(on.sql("SELECT version, digest FROM map_versions"))
    counters = DomainCounters(
        requests=120, verification_steps=4700, emitted_tokens=9500, blocks_run=127_000, blocks_dense=141_000
    )
    for number in range(NODES):
        version = 2 if number % 10 == 0 else 1
        report = NodeReport(
            node=f"crowd-{number:03}",
            map=MAP,
            channel="production",
            version=version,
            sequence=2 if version == 2 else 3,
            digest=digests[version],
            state="FRESH",
            reason="the service confirmed the map",
            since=now,
            fetched_at=now,
            poll_seconds=3600.0,
            target_fingerprint=FINGERPRINT,
            software="skipmap/0.1.0",
            domains={"qa": counters, "summarization": counters},
        )
        on.database.transaction(store_report, report, world.user_id, 100_000)
