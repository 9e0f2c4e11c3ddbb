from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest

from api import hub as hub_module


def _events(answer) -> Iterator[tuple[int, str, dict]]:
    """Events of a stream, as a browser reads them."""
    buffer = ""
    for piece in answer.response:
        buffer += piece if isinstance(piece, str) else piece.decode()
        while "\n\n" in buffer:
            block, _, buffer = buffer.partition("\n\n")
            if not block.startswith(":"):
                fields = dict(line.split(": ", 1) for line in block.splitlines())
                yield int(fields["id"]), fields["event"], json.loads(fields["data"])


@pytest.fixture
def job_id(caller, make_spec) -> str:
    return caller.post("/jobs", json=make_spec()).get_json()["id"]


def test_a_job_is_followed_to_its_end(caller, bench, job_id):
    answer = caller.get(f"/jobs/{job_id}/events")
    assert answer.mimetype == "text/event-stream"
    assert answer.headers["X-Accel-Buffering"] == "no"
    events = _events(answer)
    assert next(events)[:2] == (1, "job")
    bench.work_off()
    rest = list(events)
    assert [seq for seq, _, _ in rest] == list(range(2, len(rest) + 2))
    assert (rest[-1][1], rest[-1][2]["state"]) == ("job", "succeeded")


def test_a_stream_is_resumed_after_the_last_event_seen(caller, bench, job_id):
    bench.work_off()
    last = bench.job(job_id).last_event
    whole = list(_events(caller.get(f"/jobs/{job_id}/events")))
    assert len(whole) == last
    header = {"Last-Event-ID": str(last - 2)}
    assert list(_events(caller.get(f"/jobs/{job_id}/events", headers=header))) == whole[-2:]
    assert list(_events(caller.get(f"/jobs/{job_id}/events?after={last - 1}"))) == whole[-1:]
    # EventSource would ask for ever; this tells it to stop.
    assert caller.get(f"/jobs/{job_id}/events?after={last}").status_code == 204


def test_many_streams_share_one_poller(app, caller, bench, make_spec, job_id):
    other = caller.post("/jobs", json=make_spec()).get_json()["id"]
    streams = [_events(caller.get(f"/jobs/{name}/events")) for name in (job_id, other, job_id)]
    assert [next(stream)[0] for stream in streams] == [1, 1, 1]
    assert app.extensions["skipmap"].hub.streams == 3
    bench.work_off()
    ends = [list(stream)[-1] for stream in streams]
    assert {end[2]["state"] for end in ends} == {"succeeded"}
    assert app.extensions["skipmap"].hub.streams == 0


def test_a_stream_ends_with_its_job(caller, bench, job_id):
    events = _events(caller.get(f"/jobs/{job_id}/events"))
    next(events)
    bench.sql("DELETE FROM jobs")
    assert list(events) == []


def test_streams_end_when_the_process_is_about_to(app, caller, job_id):
    events = _events(caller.get(f"/jobs/{job_id}/events"))
    next(events)
    app.extensions["skipmap"].hub.stopping = lambda: True
    assert list(events) == []


def test_a_silent_stream_shows_that_it_lives(caller, job_id, monkeypatch):
    monkeypatch.setattr(hub_module, "KEEP_ALIVE_SECONDS", 0.01)
    answer = caller.get(f"/jobs/{job_id}/events?after=1")
    pieces = iter(answer.response)
    assert [next(pieces) for _ in range(3)] == [b": alive\n\n"] * 3
    answer.close()


def test_a_slow_reader_is_cut_off_and_comes_back(app, caller, bench, job_id, monkeypatch):
    monkeypatch.setattr(hub_module, "_QUEUED", 3)
    monkeypatch.setattr(hub_module, "KEEP_ALIVE_SECONDS", 0.2)
    bench.work_off()
    events = _events(caller.get(f"/jobs/{job_id}/events"))
    seen = [seq for seq, _, _ in events]
    assert seen == [1, 2, 3]
    assert app.extensions["skipmap"].hub.streams == 0
    rest = caller.get(f"/jobs/{job_id}/events", headers={"Last-Event-ID": "3"})
    assert next(_events(rest))[0] == 4
    rest.close()


def test_streams_outlive_a_poll_that_fails(app, caller, bench, job_id, monkeypatch):
    failed = threading.Event()

    def fail(*_):
        failed.set()
        raise ValueError("broken")

    events = _events(caller.get(f"/jobs/{job_id}/events"))
    next(events)
    with monkeypatch.context() as patch:
        patch.setattr(hub_module, "tail", fail)
        bench.work_off()
        assert failed.wait(10)
    assert list(events)[-1][2]["state"] == "succeeded"


def test_a_stream_ends_after_a_while_for_its_token_to_be_looked_at(caller, job_id, monkeypatch):
    monkeypatch.setattr(hub_module, "LONGEST_SECONDS", 0.05)
    monkeypatch.setattr(hub_module, "KEEP_ALIVE_SECONDS", 0.02)
    assert [seq for seq, _, _ in _events(caller.get(f"/jobs/{job_id}/events"))] in ([], [1])


def test_there_is_a_most_of_streams(make_app, make_caller, caller, job_id):
    few = make_caller("jobs:read", app=make_app(event_streams=1))
    events = _events(few.get(f"/jobs/{job_id}/events"))
    next(events)
    answer = few.get(f"/jobs/{job_id}/events")
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers
    events.close()


@pytest.mark.parametrize("header", ["x", "-1", "1" * 30, "9223372036854775808"])
def test_numbers_of_events(caller, job_id, header):
    answer = caller.get(f"/jobs/{job_id}/events", headers={"Last-Event-ID": header})
    assert (answer.status_code, answer.get_json()["field"]) == (422, "Last-Event-ID")
