"""The same spec gives the same answer here, on one worker, on several, cut into other chunks, and after interruptions."""

from __future__ import annotations

import json
import platform
import random
import signal
from functools import partial
from pathlib import Path

import pytest
import redis

import models.chunks
from models.findings import finding
from skipmap.profiling.check import check_job
from skipmap.profiling.job import open_job
from skipmap.profiling.result import build_result
from skipmap.profiling.run import run_job
from skipmap.profiling.store import RunFolder
from skipmap.spec import JobSpec
from tests.profiling.conftest import WORDS, save_model
from workers.child import Child
from workers.library import LibraryEngine
from workers.slot import Place, PlaceLock

LONG = 60
"""Seconds that a job, or the start of a worker with all its libraries, may take on a busy machine."""

DRAFTS = {
    "replayed": {"method": "prompt_lookup", "params": {"num_tokens": 4}},
    "live": {"method": "token_recycling"},
    "carried": {"method": "prompt_lookup", "params": {"num_tokens": 4}, "state": "run"},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of five blocks, three of them quiet."""
    return save_model(tmp_path_factory.mktemp("model") / "llama", "llama", seed=2)


@pytest.fixture(scope="module")
def make_spec(target, tmp_path_factory):
    """A job of groups of one, so that there are many; ``draft`` names one of ``DRAFTS``."""
    rng = random.Random(7)

    def words() -> str:
        return " ".join(rng.choices(WORDS[:12], k=rng.randint(4, 20)))

    path = tmp_path_factory.mktemp("calibration") / "items.jsonl"
    rows = [{"id": f"item-{n}", "prompt": words(), "reference": words()} for n in range(8)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(draft: str = "replayed", **search) -> JobSpec:
        fields = {"eps": 0.4, "tau": 0.9, "max_depth": 2, "max_pool": 4, "group_size": 1}
        return JobSpec.parse(
            {
                "target": {"id": str(target), "device": "cpu"},
                "draft": DRAFTS[draft],
                "domain": {"name": "words", "metric": "f1", "template": "chat"},
                "calibration": {"source": str(path), "calibration_fraction": 0.5},
                "search": fields | {"max_held_out_points": 1} | search,
                "decoding": {"max_new_tokens": 12, "stop": ["w31"]},
            }
        )

    return make


@pytest.fixture(scope="module")
def run_here(tmp_path_factory):
    """Digest of a spec run in this process, once each."""
    known: dict[str, str] = {}

    def run(spec: JobSpec) -> str:
        if spec.digest not in known:
            job = open_job(check_job(spec))
            folder = RunFolder(tmp_path_factory.mktemp("run"), job.content_key)
            known[spec.digest] = build_result(run_job(job, folder))["search_digest"]
        return known[spec.digest]

    return run


@pytest.fixture
def real_cluster(make_cluster):
    """A cluster whose workers load targets, and may take the time that this needs."""
    cluster = make_cluster(load_seconds=LONG, lease_seconds=6.0, heartbeat_seconds=1.0)
    yield cluster
    cluster.check()


def start_worker(cluster, slot: str, **environment: str) -> None:
    """Start a worker as a user would, and wait until it may claim."""
    owner = owner_of(slot)
    before = cluster.sql("SELECT boot_id FROM workers WHERE owner = :owner", owner=owner)
    cluster.run(slot, "-m", "workers", SKIPMAP_DEVICE="cpu", SKIPMAP_SLOT=slot, **environment)
    cluster.wait_for(
        lambda: (
            cluster.sql("SELECT boot_id FROM workers WHERE owner = :owner", owner=owner) not in ([], before)
        ),
        LONG,
        f"worker {slot} is there",
    )


def owner_of(slot: str) -> str:
    return f"{platform.node()}/cpu-{slot}"


def forget_evaluations(cluster) -> None:
    """A later job with the same content is to evaluate everything itself."""
    cluster.sql("DELETE FROM evaluation_cache")


def digest_of(cluster, job_id: str) -> str:
    assert cluster.wait_until_ended(job_id, LONG) == "succeeded", cluster.sql("SELECT error FROM jobs")
    return cluster.database.transaction(finding, job_id, "result")["document"]["search_digest"]


def stored(cluster, job_id: str, kind: str) -> int:
    """How many evaluations of a level are stored while it runs; 0 before and after."""
    (count,) = cluster.sql(
        "SELECT count(*) FROM evaluations AS e JOIN levels AS l ON l.job_id = e.job_id AND l.depth = e.depth "
        "WHERE e.job_id = :job_id AND l.kind = :kind AND l.state = 'running'",
        job_id=job_id,
        kind=kind,
    )
    return count


def is_within(cluster, job_id: str, kind: str) -> bool:
    """Whether a level has stored something, and a worker has a chunk of it."""
    return stored(cluster, job_id, kind) > 0 and bool(
        cluster.sql(
            "SELECT 1 FROM chunks WHERE job_id = :job_id AND kind = :kind AND state = 'running'",
            job_id=job_id,
            kind=kind,
        )
    )


def test_one_two_and_three_workers_find_what_is_found_here(real_cluster, make_spec, run_here):
    cluster = real_cluster
    cluster.start_reconciler()
    for count in (1, 2, 3):
        start_worker(cluster, f"place-{count}")
        jobs = {}
        for draft in DRAFTS:
            forget_evaluations(cluster)
            jobs[draft] = cluster.submit(make_spec(draft))
            assert digest_of(cluster, jobs[draft]) == run_here(make_spec(draft)), draft
        # Chunks with a fixed place, such as dense, aside, all of them had a part in it.
        owners = cluster.sql(
            "SELECT DISTINCT owner FROM evaluations WHERE job_id = ANY(:jobs)", jobs=list(jobs.values())
        )
        assert len(owners) == count


@pytest.mark.parametrize("draft", ["replayed", "carried"])
def test_chunks_may_be_cut_in_any_way(make_cluster, make_spec, run_here, tmp_path, monkeypatch, draft):
    cluster = make_cluster()
    place = Place("here", "cpu")
    lock = PlaceLock(tmp_path / "run", place.owner)
    lock.acquire()
    child = Child(cluster.settings, place, lock, LibraryEngine("cpu", tmp_path / "sets"))
    child.start()
    sizes = []
    for longest in (1e-9, 0.25, 3600):
        forget_evaluations(cluster)
        monkeypatch.setattr(models.chunks, "LONGEST_CHUNK_SECONDS", longest)
        job_id = cluster.submit(make_spec(draft, group_size=2, max_pool=5))
        child.work(None)
        assert digest_of(cluster, job_id) == run_here(make_spec(draft, group_size=2, max_pool=5))
        sizes += cluster.sql(
            "SELECT max(jsonb_array_length(groups)) FROM chunks WHERE job_id = :job_id", job_id=job_id
        )
    assert sizes[0] == 1 < sizes[-1]
    cluster.check()


def test_a_job_may_change_its_worker_at_any_point(real_cluster, make_spec, run_here):
    cluster = real_cluster
    cluster.start_reconciler()
    start_worker(cluster, "first")
    job_id = cluster.submit(make_spec("live"))
    within = partial(is_within, cluster, job_id)
    cluster.wait_for(partial(within, "single"), LONG, "in the middle of the single blocks")
    cluster.kill("first")
    start_worker(cluster, "first")
    cluster.wait_for(partial(within, "level"), LONG, "in the middle of the pairs")
    cluster.kill("first", signal.SIGTERM)
    assert cluster.processes["first"].wait(LONG) == 0
    assert cluster.state(job_id) == "running"
    start_worker(cluster, "second")
    assert digest_of(cluster, job_id) == run_here(make_spec("live"))
    outcomes = cluster.sql("SELECT outcome FROM attempts WHERE job_id = :job_id", job_id=job_id)
    assert outcomes.count("crashed") == 1
    assert set(outcomes) <= {"succeeded", "crashed", "released"}


@pytest.mark.model
def test_the_demo_model_gives_the_same_answer_through_every_fault(real_cluster, smollm2_dir, run_here):
    cluster = real_cluster
    spec = JobSpec.parse(
        {
            "target": {"id": str(smollm2_dir), "device": "cpu"},
            "draft": {"method": "prompt_lookup"},
            "domain": {"name": "qa"},
            "calibration": {"source": "sample:qa", "limit": 8},
            "search": {"max_depth": 2, "max_pool": 3, "max_held_out_points": 1},
            "decoding": {"max_new_tokens": 8},
        }
    )
    cluster.start_reconciler("reconciler-0")
    start_worker(cluster, "first")
    undisturbed = digest_of(cluster, cluster.submit(spec))

    forget_evaluations(cluster)
    job_id = cluster.submit(spec)
    cluster.wait_for(
        partial(is_within, cluster, job_id, "single"), LONG, "in the middle of the single blocks"
    )
    cluster.kill("first")
    cluster.kill("reconciler-0")
    redis.Redis.from_url(cluster.valkey.client_url).flushall()
    cluster.start_reconciler("reconciler-1")
    start_worker(cluster, "first")
    assert digest_of(cluster, job_id) == undisturbed
    assert cluster.sql("SELECT count(*) FROM attempts WHERE outcome = 'crashed'") == [1]
    assert run_here(spec) == undisturbed
