from __future__ import annotations

import pytest

from skipmap.client.events import JobEvent
from skipmap.errors import ModelFailure, NotFound
from tests.client.scripted import JOB, JOB_ID, Answer, as_json, job_json, problem, stream

EVENTS = f"{JOB}/events"
FIRST = (1, "job", {"state": "running"})
SECOND = (2, "progress", {"done": 1, "size": 2})
LAST = (3, "job", {"state": "succeeded"})


def test_events_in_order(service, client, pauses):
    service.will("GET", EVENTS, stream(FIRST, SECOND, LAST), Answer(204))
    assert list(client.events(JOB_ID)) == [JobEvent(*event) for event in (FIRST, SECOND, LAST)]
    assert "last-event-id" not in service.asked[0].headers
    assert service.asked[1].headers["last-event-id"] == "3"
    assert pauses == []


def test_a_broken_stream_goes_on_after_the_last_event(service, client):
    service.will("GET", EVENTS, stream(FIRST, drops=True), stream(SECOND), stream(LAST), Answer(204))
    assert [event.id for event in client.events(JOB_ID, 0)] == [1, 2, 3]
    assert [request.headers["last-event-id"] for request in service.asked] == ["0", "1", "2", "3"]


def test_nothing_after_the_last_event(service, client):
    service.will("GET", EVENTS, Answer(204))
    assert list(client.events(JOB_ID, 3)) == []


@pytest.mark.parametrize("drops", [True, False])
def test_the_end_of_a_stream_is_not_the_end_of_the_job(service, client, pauses, drops):
    """Also when the job ends right after the stream, and the server's last events were never sent."""
    cut = stream(FIRST, drops=drops)
    service.will("GET", EVENTS, cut, stream(), stream(SECOND, LAST), Answer(204))
    service.will("GET", JOB, as_json(job_json("succeeded")))
    assert [event.id for event in client.events(JOB_ID)] == [1, 2, 3]
    assert len(pauses) == 1


def test_a_stream_that_never_works_is_given_up(service, make_client):
    service.will("GET", EVENTS, problem(500, "no streams"))
    with pytest.raises(ModelFailure, match="no streams"):
        list(make_client(retry_seconds=0).events(JOB_ID))


def test_an_unknown_job(service, client):
    service.will("GET", EVENTS, problem(404, "no job"))
    with pytest.raises(NotFound, match="no job"):
        next(client.events(JOB_ID))


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"<html>", {"Content-Type": "text/html"}),
        Answer(200, b"id: one\ndata: {}\n\n", {"Content-Type": "text/event-stream"}),
        Answer(200, b"id: 1\ndata: {\n\n", {"Content-Type": "text/event-stream"}),
    ],
)
def test_what_is_no_event(service, client, answer):
    service.will("GET", EVENTS, answer)
    with pytest.raises(ModelFailure):
        list(client.stream_events(JOB_ID))
