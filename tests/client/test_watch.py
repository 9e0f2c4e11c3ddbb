from __future__ import annotations

import pytest

from skipmap.client.watch import Away, watch
from skipmap.errors import ModelFailure, NotFound, Refused
from tests.client.scripted import JOB, JOB_ID, Answer, as_json, job_json, problem, stream

EVENTS = f"{JOB}/events"
RUNNING, DONE = (as_json(job_json(state), ETag=f'"{state}"') for state in ("running", "succeeded"))
SAME = Answer(304)


def states(client, pauses, **options):
    """States, and ``away``, as a watcher sees them."""
    seen = watch(client, JOB_ID, pause=pauses.append, **options)
    return ["away" if isinstance(one, Away) else one.state for one in seen]


def test_a_job_that_has_ended_is_seen_once(service, client, pauses):
    service.will("GET", JOB, DONE)
    assert states(client, pauses) == ["succeeded"]
    assert service.paths() == [JOB]


def test_events_say_when_to_look(service, client, pauses):
    service.will("GET", JOB, RUNNING, as_json(job_json("pausing")), DONE)
    service.will("GET", EVENTS, stream((1, "job", {}), (2, "job", {}), (3, "job", {})))
    assert states(client, pauses) == ["running", "pausing", "succeeded"]
    assert pauses == []


def test_a_burst_of_work_is_one_look(service, client, pauses):
    service.will("GET", JOB, RUNNING, SAME, DONE)
    service.will("GET", EVENTS, stream(*((number, "chunk", {}) for number in range(1, 40))))
    assert states(client, pauses) == ["running", "succeeded"]
    assert service.paths().count(JOB) == 3


@pytest.mark.parametrize(
    "denied", [problem(404), problem(503), Answer(200, b"", {"Content-Type": "text/html"})]
)
def test_without_events_looking_is_enough(service, client, pauses, denied):
    service.will(
        "GET",
        JOB,
        RUNNING,
        as_json(job_json(), ETag='"2"', Retry_After="4"),
        SAME,
        as_json(job_json("pausing")),
        DONE,
    )
    service.will("GET", EVENTS, denied)
    assert states(client, pauses) == ["running", "running", "pausing", "succeeded"]
    assert service.paths().count(EVENTS) == 1
    tags = [asked.headers.get("if-none-match") for asked in service.asked if asked.path == JOB]
    assert tags[:4] == [None, '"running"', '"2"', '"2"']
    assert pauses[0] == 4.0


def test_a_restart_of_the_service_is_outlived(service, client, pauses):
    service.will("GET", JOB, RUNNING, problem(503), Answer(drops=True), as_json(job_json("pausing")), DONE)
    service.will("GET", EVENTS, stream((1, "job", {}), drops=True), stream((2, "job", {})))
    assert states(client, pauses) == ["running", "away", "pausing", "succeeded"]
    streams = [asked.headers.get("last-event-id") for asked in service.asked if asked.path == EVENTS]
    assert streams == [None, "1"]


def test_patience_ends(service, client, pauses):
    service.will("GET", JOB, RUNNING, problem(503, "down"))
    service.will("GET", EVENTS, problem(503))
    seen = watch(client, JOB_ID, patience_seconds=0, pause=pauses.append)
    assert next(seen).state == "running"
    assert "down" in next(seen).problem
    with pytest.raises(ModelFailure, match=r"gave up after 0 minutes \(down.*watch it again later"):
        next(seen)


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (401, Refused)])
def test_a_job_that_is_out_of_reach(service, client, pauses, status, kind):
    service.will("GET", JOB, problem(status))
    with pytest.raises(kind):
        states(client, pauses)
    service.will("GET", JOB, RUNNING, problem(status))
    service.will("GET", EVENTS, stream())
    with pytest.raises(kind):
        states(client, pauses)
