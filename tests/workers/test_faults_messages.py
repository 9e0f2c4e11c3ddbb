"""Messages that come too often, too late, or from somebody who means harm. No reconciler sends better ones."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from models.base import new_id
from models.control import delete_job
from tests.models.bench import make_spec
from tests.workers.cluster import QUEUE
from workers.transport import RING


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


def envelope(body: str, content_type: str = "application/json", **headers: Any) -> str:
    """A message as it lies in the broker's list."""
    properties = {
        "body_encoding": "base64",
        "delivery_tag": str(uuid4()),
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": QUEUE},
        "priority": 0,
        "correlation_id": str(uuid4()),
    }
    known = {"lang": "py", "task": RING, "id": str(uuid4()), "root_id": str(uuid4()), "argsrepr": "()"}
    return json.dumps(
        {
            "body": base64.b64encode(body.encode("latin1")).decode(),
            "content-encoding": "binary" if "pickle" in content_type else "utf-8",
            "content-type": content_type,
            "headers": known | headers,
            "properties": properties,
        }
    )


def call(*args: Any, **kwargs: Any) -> str:
    return json.dumps([args, kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])


@pytest.fixture
def make_job(cluster):
    """Submit a small job; gives its id and that of its first chunk."""

    def make() -> tuple[str, str]:
        job_id = cluster.submit(make_spec(max_depth=1))
        (chunk_id,) = cluster.sql("SELECT id FROM chunks WHERE job_id = :id", id=job_id)
        return job_id, chunk_id

    return make


@pytest.mark.fault(14)
def test_one_message_many_times_to_many_workers_makes_one_claim(cluster, make_job):
    workers = ["fake-0", "fake-1", "fake-2"]
    for name in workers:
        cluster.start_worker(name)
    for name in workers:
        cluster.child_of(name)
    job_id, chunk_id = make_job()
    cluster.ring(chunk_id, times=5)
    assert cluster.wait_until_ended(job_id) == "succeeded"
    cluster.until(lambda: cluster.broker.llen(QUEUE) == 0, "all messages are received")
    assert cluster.sql("SELECT outcome FROM attempts WHERE chunk_id = :id", id=chunk_id) == ["succeeded"]
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
    assert cluster.evaluated_once()


@pytest.mark.fault(15)
def test_a_message_about_a_chunk_that_cannot_be_claimed_leads_to_another_one(cluster, make_job):
    cluster.start_worker()
    done, done_chunk = make_job()
    cluster.ring(done_chunk)
    assert cluster.wait_until_ended(done) == "succeeded"
    cancelled, cancelled_chunk = make_job()
    cluster.cancel(cancelled)
    deleted, deleted_chunk = make_job()
    cluster.sql("UPDATE levels SET state = 'cancelled', finished_at = now() WHERE job_id = :id", id=deleted)
    cluster.sql("UPDATE chunks SET state = 'cancelled', finished_at = now() WHERE job_id = :id", id=deleted)
    cluster.sql(
        "UPDATE jobs SET state = 'cancelled', cancel_requested_at = now(), finished_at = now() WHERE id = :id",
        id=deleted,
    )
    cluster.database.transaction(delete_job, deleted)
    before = cluster.rows(done), cluster.rows(cancelled)
    for stale in (done_chunk, cancelled_chunk, deleted_chunk, new_id()):
        job_id, _ = make_job()
        cluster.ring(stale)
        assert cluster.wait_until_ended(job_id) == "succeeded"
    assert (cluster.rows(done), cluster.rows(cancelled)) == before


@pytest.mark.fault(38)
def test_forged_messages_do_nothing_and_the_worker_goes_on(cluster, make_job, tmp_path):
    trap = tmp_path / "unpickled"
    harmful = pickle.dumps(((Trap(trap),), {}, {})).decode("latin1")
    forged = {
        "no JSON": b"\x80\x04 nonsense",
        "no envelope": b"{}",
        "not an object": b"[1, 2, 3]",
        "pickle": pickle.dumps(Trap(trap)),
        "pickle in an envelope": envelope(harmful, "application/x-python-serialize"),
        "pickle by another name": envelope(harmful, "application/x-pickle"),
        "another task": envelope(call(), task="os.system"),
        "another version": envelope(call(2, "x")),
        "an object for an id": envelope(call(1, {"id": 1})),
        "an endless id": envelope(call(1, "x" * 100_000)),
        "SQL for an id": envelope(call(1, "'; DROP TABLE chunks; --")),
        "too many arguments": envelope(call(1, "x", 3, 4, chunk="x")),
        "no arguments": envelope("{}"),
        "no list of arguments": envelope(json.dumps([{"0": 1}, {}, {}])),
        "no JSON in the body": envelope("{"),
        "no end of brackets": b"[" * 100_000,
        "no end of brackets in the body": envelope("[" * 100_000),
        "headers that are none": json.dumps(json.loads(envelope(call(1, "x"))) | {"headers": "x"}),
        "a time limit": envelope(call(1, "x"), timelimit=[0.001, 0.001]),
        "a time limit that is none": envelope(call(1, "x"), timelimit="x"),
        "a time to wait for": envelope(call(1, "x"), eta="2999-01-01T00:00:00+00:00"),
        "a task to call next": envelope(json.dumps([[1, "x"], {}, {"chain": [{"task": "os.system"}]}])),
    }
    cluster.start_worker()
    child = cluster.child_of("fake-0")
    cluster.broker.lpush(QUEUE, *forged.values())
    cluster.until(lambda: cluster.broker.llen(QUEUE) == 0, "all messages are received")
    job_id, chunk_id = make_job()
    cluster.ring(chunk_id)
    assert cluster.wait_until_ended(job_id) == "succeeded"
    # Neither the process that reads messages nor the one that works has ended.
    assert cluster.child_of("fake-0") == child
    assert not trap.exists()
