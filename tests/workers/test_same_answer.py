"""The same spec gives the same answer in one process, on one worker or several, however it is cut or interrupted."""

from __future__ import annotations

import json
import platform
import random
import signal
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
import redis

from models.claim import claim
from models.database import Database
from models.findings import finding
from models.settings import ServiceSettings
from models.workers import Slot, end_quarantine, quarantine, register
from skipmap.profiling.check import check_job
from skipmap.profiling.evaluate import answer
from skipmap.profiling.job import open_job
from skipmap.profiling.result import build_result
from skipmap.profiling.run import run_job
from skipmap.profiling.search import DENSE
from skipmap.profiling.store import RunFolder
from skipmap.spec import JobSpec
from tests.profiling.conftest import WORDS, save_model
from workers.chunk import Workbench
from workers.library import LibraryEngine
from workers.pulse import Pulse
from workers.slot import PlaceLock

LONG = 120
"""Seconds that a job, or the start of a worker with all its libraries, may take on a busy machine."""

DRAFTS = {
    "replayed": {"method": "prompt_lookup", "params": {"num_tokens": 4}},
    "live": {"method": "token_recycling"},
    "carried": {"method": "token_recycling", "state": "run"},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of five blocks, three of them quiet."""
    return save_model(tmp_path_factory.mktemp("model") / "llama", "llama", seed=2)


@pytest.fixture(scope="module")
def make_spec(target, tmp_path_factory):
    """A job of groups of one, so that there are many; ``draft`` names one of ``DRAFTS``.

    References are the target's own answers, so that dense scores well and its neighbours less so.
    """
    rng = random.Random(7)
    prompts = [" ".join(rng.choices(WORDS[:12], k=rng.randint(4, 20))) for _ in range(16)]
    path = tmp_path_factory.mktemp("calibration") / "items.jsonl"

    def write(references: list[str]) -> None:
        rows = [
            {"id": f"item-{number}", "prompt": prompt, "reference": reference}
            for number, (prompt, reference) in enumerate(zip(prompts, references, strict=True))
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(draft: str = "replayed", *, tokens: int = 12, **search) -> JobSpec:
        fields = {"eps": 0.4, "tau": 0.4, "max_depth": 2, "max_pool": 4, "group_size": 1}
        return JobSpec.parse(
            {
                "target": {"id": str(target), "device": "cpu"},
                "draft": DRAFTS[draft],
                "domain": {"name": "words", "metric": "f1", "template": "chat"},
                "calibration": {"source": str(path), "calibration_fraction": 0.5},
                "search": fields | {"max_held_out_points": 1} | search,
                "decoding": {"max_new_tokens": tokens, "stop": ["w31"]},
            }
        )

    write(["w1"] * len(prompts))
    job = open_job(check_job(make()))
    items = sorted([*job.data.calibration, *job.data.held_out], key=lambda item: int(item.id.split("-")[1]))
    write([answer(job.subject, DENSE, item).text or "w44" for item in items])
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
    cluster = make_cluster(load_seconds=LONG, stall_seconds=LONG)
    yield cluster
    cluster.check()


def start_workers(cluster, *slots: str) -> None:
    """Start workers as a user would, and wait until they may claim."""
    owners = [owner_of(slot) for slot in slots]
    boots = partial(
        cluster.sql, "SELECT owner, boot_id FROM workers WHERE owner = ANY(:owners)", owners=owners
    )
    before = set(boots())
    for slot in slots:
        cluster.run(slot, "-m", "workers", SKIPMAP_DEVICE="cpu", SKIPMAP_SLOT=slot)
    cluster.wait_for(lambda: len(set(boots()) - before) == len(slots), LONG, f"workers {slots} are there")


def owner_of(slot: str) -> str:
    return f"{platform.node()}/cpu-{slot}"


def forget_evaluations(cluster) -> None:
    """A later job with the same content is to evaluate everything itself."""
    cluster.sql("DELETE FROM evaluation_cache")


def digest_of(cluster, job_id: str) -> str:
    assert cluster.wait_until_ended(job_id, LONG) == "succeeded", cluster.sql("SELECT error FROM jobs")
    return cluster.database.transaction(finding, job_id, "result")["document"]["search_digest"]


def stored(cluster, job_id: str, kind: str) -> int:
    """How many configurations of a level are evaluated, or ranked, while it runs; 0 before and after."""
    table = "ranks" if kind == "rank" else "evaluations"
    (count,) = cluster.sql(
        f"SELECT count(*) FROM {table} AS e JOIN levels AS l ON l.job_id = e.job_id AND l.depth = e.depth "
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
    slots = ("one", "two", "three")
    # All are started at once, which takes less time than one after the other, and all but the first have to wait.
    start_workers(cluster, *slots)
    for slot in slots[1:]:
        cluster.database.transaction(quarantine, owner_of(slot), 3600)
    for count, slot in enumerate(slots, start=1):
        cluster.database.transaction(end_quarantine, owner_of(slot))
        forget_evaluations(cluster)
        jobs = {draft: cluster.submit(make_spec(draft)) for draft in DRAFTS}
        here = {draft: run_here(make_spec(draft)) for draft in DRAFTS}
        assert {draft: digest_of(cluster, job_id) for draft, job_id in jobs.items()} == here
        owners = cluster.sql(
            "SELECT DISTINCT owner FROM evaluations WHERE job_id = ANY(:jobs)", jobs=list(jobs.values())
        )
        assert len(owners) == count


@pytest.mark.parametrize("draft", ["replayed", "carried"])
def test_chunks_may_be_cut_in_any_way(make_cluster, make_spec, run_here, tmp_path, draft):
    cluster = make_cluster()
    engine = LibraryEngine("cpu")
    spec = make_spec(draft)
    sizes = []
    for longest in (1e-9, 3600):
        forget_evaluations(cluster)
        job_id = cluster.submit(spec)
        work_off(cluster.settings.model_copy(update={"chunk_seconds": longest}), engine, tmp_path)
        assert digest_of(cluster, job_id) == run_here(spec)
        sizes += cluster.sql(
            "SELECT max(jsonb_array_length(groups)) FROM chunks WHERE job_id = :job_id", job_id=job_id
        )
    assert sizes == [1, 6]
    cluster.check()


SEARCHES = {
    "accept_only": {"max_pool": 4},
    "metric_only": {"max_pool": 4},
    "beam": {"max_pool": 4, "beam_width": 2},
    "greedy": {"tau": 0.9},
    "random": {"draws": 2},
    "shortgpt": {"max_depth": 3},
    "sleb": {"max_depth": 3},
}


@pytest.mark.parametrize("strategy", SEARCHES)
def test_every_strategy_finds_what_is_found_here(make_cluster, make_spec, run_here, tmp_path, strategy):
    cluster = make_cluster()
    more = {"max_pool": 12} | SEARCHES[strategy]
    spec = make_spec(strategy=strategy, group_size=2, **more)
    job_id = cluster.submit(spec)
    work_off(cluster.settings.model_copy(update={"chunk_seconds": 1e-9}), LibraryEngine("cpu"), tmp_path)
    assert digest_of(cluster, job_id) == run_here(spec)
    document = cluster.database.transaction(finding, job_id, "result")["document"]
    assert document["strategy"]["name"] == strategy
    assert document["budget"]["ranked"] == cluster.sql("SELECT count(*) FROM ranks")[0]
    assert (document["budget"]["ranked"] > 0) == (strategy in ("shortgpt", "sleb"))
    assert document["budget"]["evaluated"] == cluster.sql("SELECT count(*) FROM evaluations")[0]
    cluster.check()


def work_off(settings: ServiceSettings, engine: LibraryEngine, folder: Path) -> None:
    """Work in this process until there is nothing to claim."""
    slot = Slot("here", "here", 1, "boot", engine.device_class, engine.version, "1")
    database = Database(settings)
    bench = Workbench(
        database, settings, engine, Pulse(database, settings, slot, PlaceLock(folder, slot.owner))
    )
    database.transaction(register, slot)
    while (claimed := database.transaction(claim, settings, slot, uuid4())) is not None:
        bench.work_on(claimed)
    database.close()


def test_a_job_may_change_its_worker_at_any_point(real_cluster, make_spec, run_here):
    cluster = real_cluster
    spec = make_spec("live", tokens=64)
    cluster.start_reconciler()
    start_workers(cluster, "first", "second")
    cluster.database.transaction(quarantine, owner_of("second"), 3600)
    job_id = cluster.submit(spec)
    cluster.wait_for(
        partial(is_within, cluster, job_id, "single"), LONG, "in the middle of the single blocks"
    )
    cluster.kill("first")
    start_workers(cluster, "first")
    cluster.wait_for(partial(is_within, cluster, job_id, "level"), LONG, "in the middle of the pairs")
    cluster.kill("first", signal.SIGTERM)
    assert cluster.processes["first"].wait(LONG) == 0
    assert cluster.state(job_id) == "running"
    cluster.database.transaction(end_quarantine, owner_of("second"))
    assert digest_of(cluster, job_id) == run_here(spec)
    outcomes = cluster.sql("SELECT outcome FROM attempts WHERE job_id = :job_id", job_id=job_id)
    assert outcomes.count("crashed") == outcomes.count("released") == 1


@pytest.mark.model
@pytest.mark.parametrize(
    ("search", "kind"),
    [
        pytest.param({"max_pool": 3}, "single", id="tss"),
        pytest.param(
            {"strategy": "sleb", "max_depth": 1, "group_size": 2}, "rank", id="sleb", marks=pytest.mark.slow
        ),
    ],
)
def test_the_demo_model_gives_the_same_answer_through_every_fault(
    real_cluster, smollm2_dir, run_here, search, kind
):
    cluster = real_cluster
    spec = JobSpec.parse(
        {
            "target": {"id": str(smollm2_dir), "device": "cpu"},
            "draft": {"method": "prompt_lookup"},
            "domain": {"name": "qa"},
            "calibration": {"source": "sample:qa", "limit": 8},
            "search": {"max_depth": 2, "max_held_out_points": 1, "allow_no_signal": True} | search,
            "decoding": {"max_new_tokens": 8},
        }
    )
    cluster.start_reconciler("reconciler-0")
    start_workers(cluster, "first")
    job_id = cluster.submit(spec)
    cluster.wait_for(partial(is_within, cluster, job_id, kind), LONG, f"in the middle of level {kind}")
    cluster.kill("first")
    cluster.kill("reconciler-0")
    redis.Redis.from_url(cluster.valkey.client_url).flushall()
    cluster.start_reconciler("reconciler-1")
    start_workers(cluster, "first")
    # Meanwhile the worker goes on.
    undisturbed = run_here(spec)
    assert digest_of(cluster, job_id) == undisturbed
    assert cluster.sql("SELECT count(*) FROM attempts WHERE outcome = 'crashed'") == [1]
