from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from models.base import new_id
from models.database import Database
from models.errors import KeyInUse, KeyReused
from models.idempotency import job_of_key
from models.submit import submit
from skipmap.errors import InvalidInput, NotFound
from skipmap.spec import JobSpec
from tests.models.bench import make_spec


def test_a_job_comes_with_its_dense_chunk(bench):
    job = bench.submit(priority=7)
    assert job.state == "running"
    assert job.parsed_spec == make_spec()
    assert bench.sql("SELECT idx, kind, depth, state, size FROM levels") == [(0, "dense", 0, "running", 1)]
    assert bench.sql("SELECT seq, kind, groups, state, priority FROM chunks") == [
        (0, "dense", [["dense"]], "pending", 7)
    ]
    assert bench.sql("SELECT seq, kind, payload FROM events") == [(1, "job", {"state": "running"})]


def test_twenty_requests_with_one_key_make_one_job(bench):
    start = threading.Barrier(20)
    # Each with a connection of its own, so that all are at work at once.
    settings = bench.settings.model_copy(update={"pool_size": 20})

    def post(_):
        start.wait()
        return database.transaction(submit, make_spec(), new_id(), principal="me", idempotency_key="k")

    database = Database(settings)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(post, range(20)))
    database.close()
    assert len({job.id for job, _ in answers}) == 1
    assert sum(new for _, new in answers) == 1
    assert bench.sql("SELECT count(*) FROM jobs") == bench.sql("SELECT count(*) FROM chunks") == [1]


def test_a_key_binds_one_request_of_one_principal(bench):
    def post(principal, **search):
        return bench.database.transaction(
            submit, make_spec(**search), new_id(), principal=principal, idempotency_key="k"
        )

    first, new = post("me")
    assert new
    again, new = post("me")
    assert (again.id, new) == (first.id, False)
    with pytest.raises(KeyReused):
        post("me", eps=0.1)
    other, new = post("you", eps=0.1)
    assert new
    assert other.id != first.id


def test_requests_are_told_apart_by_what_was_sent(bench):
    def post(request_hash, **search):
        return bench.database.transaction(
            submit,
            make_spec(**search),
            new_id(),
            principal="me",
            idempotency_key="k",
            request_hash=request_hash,
        )

    def bound(request_hash, key="k"):
        return bench.database.transaction(job_of_key, "me", key, request_hash)

    assert bound("one") is None
    first, _ = post("one")
    again, new = post("one", eps=0.1)
    assert (again.id, new, bound("one")) == (first.id, False, first.id)
    assert bound("one", "another key") is None
    for ask in (post, bound):
        with pytest.raises(KeyReused):
            ask("two")


def test_a_request_that_is_still_at_work_is_named(bench):
    hasty = Database(bench.settings.model_copy(update={"lock_timeout_seconds": 0.05}))

    def post(session):
        return submit(session, make_spec(), new_id(), principal="me", idempotency_key="k")

    def slow(session):
        post(session)
        with pytest.raises(KeyInUse):
            hasty.transaction(post)

    bench.database.transaction(slow)
    hasty.close()


def test_a_repeated_transaction_finds_its_job(bench):
    """An earlier commit may have gone through unnoticed."""
    job_id = new_id()
    first, new = bench.database.transaction(submit, make_spec(), job_id)
    again, newer = bench.database.transaction(submit, make_spec(), job_id)
    assert (first.id, new, again.id, newer) == (job_id, True, job_id, False)
    assert bench.sql("SELECT count(*) FROM levels") == [1]


def test_a_failed_submit_leaves_nothing(bench):
    def work(session):
        submit(session, make_spec(), new_id(), principal="me", idempotency_key="k")
        raise RuntimeError("the process dies here")

    with pytest.raises(RuntimeError):
        bench.database.transaction(work)
    assert not any(bench.dump().values())
    assert bench.sql("SELECT count(*) FROM idempotency_keys") == [0]


@pytest.mark.parametrize("name", ["a\0b", "half \ud83d"])
def test_texts_that_no_database_holds_are_refused(bench, name):
    spec = JobSpec.model_validate(make_spec().model_dump(mode="json") | {"labels": {"x": name}})
    with pytest.raises(InvalidInput, match=r"labels\.x"):
        bench.submit(spec)


def test_a_backslash_is_no_nul(bench):
    spec = JobSpec.parse(make_spec().model_dump(mode="json") | {"name": "C:\\u0000"})
    assert bench.submit(spec).name == "C:\\u0000"


def test_an_unknown_calibration_set_is_not_found(bench):
    with pytest.raises(NotFound, match="no calibration set"):
        bench.submit(calibration_set_id="gone")


@pytest.mark.parametrize("priority", [-1, 10])
def test_priority_has_bounds(bench, priority):
    with pytest.raises(InvalidInput, match="priority"):
        bench.submit(priority=priority)


@pytest.mark.parametrize(("device", "kind"), [("auto", None), ("cpu", "cpu"), ("cuda:1", "cuda")])
def test_the_device_says_which_workers_may_come(bench, device, kind):
    spec = JobSpec.parse(make_spec().model_dump(mode="json") | {"target": {"id": "t", "device": device}})
    assert bench.submit(spec).device_class == kind
