from __future__ import annotations

import json

import pytest

from skipmap.client.client import Client
from skipmap.client.documents import JobRequest
from skipmap.client.server import Server
from skipmap.errors import InvalidInput, ModelFailure, NotFound, Refused
from tests.client.scripted import JOB, JOB_ID, NOW, Answer, as_json, job_json, problem

REQUEST = {
    "target": {"id": "tiny"},
    "draft": {"method": "sam"},
    "domain": {"name": "qa"},
    "calibration": {"source": "sample:qa"},
}


def submit(client, **options):
    request = JobRequest.parse(REQUEST)
    assert isinstance(request, JobRequest)
    return client.submit(request, **options)


def test_submit_sends_what_was_given_and_nothing_else(service, client):
    service.will("POST", "/api/v1/jobs", as_json(job_json(), 202))
    assert submit(client).id == JOB_ID
    (asked,) = service.asked
    assert json.loads(asked.body) == REQUEST
    assert asked.headers["authorization"] == "Bearer secret-token"


def test_a_repeated_submit_carries_the_same_key(service, client):
    service.will("POST", "/api/v1/jobs", Answer(drops=True), problem(503), as_json(job_json(), 202))
    submit(client)
    keys = {asked.headers["idempotency-key"] for asked in service.asked}
    assert (len(service.asked), len(keys)) == (3, 1)
    submit(client)
    submit(client, idempotency_key="mine")
    assert [asked.headers["idempotency-key"] for asked in service.asked[3:]] != [*keys, "mine"]
    assert service.asked[-1].headers["idempotency-key"] == "mine"


@pytest.mark.parametrize(
    "busy",
    [*map(problem, (429, 502, 503, 504)), problem(409, headers={"Retry-After": "0"}), Answer(drops=True)],
)
def test_reading_is_repeated(service, client, pauses, busy):
    service.will("GET", JOB, busy, as_json(job_json()))
    assert client.job(JOB_ID).id == JOB_ID
    assert len(pauses) == 1
    assert pauses[0] <= 0.25


def test_the_servers_word_on_when_to_come_again_holds(service, client, pauses):
    service.will("GET", JOB, problem(503, headers={"Retry-After": "7"}), as_json(job_json()))
    client.job(JOB_ID)
    assert pauses == [7.0]


def test_a_date_as_retry_after(service, client, pauses):
    late = {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}
    service.will("GET", JOB, problem(503, headers=late), as_json(job_json()))
    client.job(JOB_ID)
    assert len(pauses) == 1


def test_no_waiting_beyond_the_bound(service, client, pauses):
    service.will("GET", JOB, problem(503, "busy", headers={"Retry-After": "3600"}))
    with pytest.raises(ModelFailure, match="busy"):
        client.job(JOB_ID)
    assert (len(service.asked), pauses) == (1, [])


def test_waiting_is_told_once(service, make_client):
    said = []
    service.will("GET", JOB, problem(503, "busy"), problem(503), as_json(job_json()))
    make_client(on_retry=said.append).job(JOB_ID)
    assert said == ["busy; trying again for 10 s"]


def test_what_must_not_happen_twice_is_not_repeated(service, client):
    service.will("POST", f"{JOB}/retry", Answer(drops=True))
    with pytest.raises(ModelFailure, match="gave no answer"):
        client.retry(JOB_ID)
    service.will("DELETE", JOB, problem(503))
    with pytest.raises(ModelFailure):
        client.delete(JOB_ID)
    assert len(service.asked) == 2


def test_a_server_that_is_not_there(service):
    service.close()
    with (
        Client(Server(service.url), retry_seconds=0) as client,
        pytest.raises(
            ModelFailure, match=r"cannot reach http://127.0.0.1:[0-9]+ .*--server or SKIPMAP_SERVER"
        ),
    ):
        client.job(JOB_ID)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, InvalidInput) for status in (400, 413, 415, 422)),
        *((status, NotFound) for status in (404, 410)),
        *((status, Refused) for status in (401, 403, 405, 409, 412)),
        *((status, ModelFailure) for status in (429, 500, 502, 503)),
    ],
)
def test_problems_become_errors(service, make_client, status, kind):
    service.will("GET", JOB, problem(status, "it is so"))
    with pytest.raises(kind, match="it is so"):
        make_client(retry_seconds=0).job(JOB_ID)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (problem(422, "search.eps: too large", field="search.eps"), "search.eps: too large"),
        (problem(422, "too large", field="search.eps"), "search.eps: too large"),
        (problem(409, "not now", state="paused"), "not now (state: paused)"),
        (problem(409, "it is paused", state="paused"), "it is paused"),
        (problem(500, "sorry", request_id="r-1"), "sorry (request r-1)"),
        (problem(403, "needs jobs:write"), "needs jobs:write"),
        (problem(401, "no"), "no (set SKIPMAP_TOKEN or give --token-file)"),
        (Answer(502, b"<html>"), "the server answers 502 Bad Gateway"),
    ],
)
def test_messages(service, make_client, answer, message):
    service.will("GET", JOB, answer)
    with pytest.raises((InvalidInput, Refused, ModelFailure)) as caught:
        make_client(retry_seconds=0).job(JOB_ID)
    assert str(caught.value) == message


def test_without_a_token_the_way_to_one_is_told(service, make_client):
    service.will("GET", JOB, problem(401, "who are you?"))
    with pytest.raises(Refused, match=r"^who are you\? \(set SKIPMAP_TOKEN or give --token-file\)$"):
        make_client(token=None).job(JOB_ID)
    assert "authorization" not in service.asked[0].headers


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Answer(404, b"Not Found"), "is a Skipmap service there"),
        (
            Answer(301, b"", {"Location": "https://a.example/"}),
            "it points to https://a.example/; give that address",
        ),
        (as_json({"hello": 1}), r"answers something else than expected \(id: Field required\)"),
        (Answer(200, b"<html>"), "answers something else than expected"),
    ],
)
def test_another_server(service, client, answer, message):
    service.will("GET", JOB, answer)
    with pytest.raises(ModelFailure, match=message):
        client.job(JOB_ID)


def test_unchanged_jobs_are_not_sent_again(service, client):
    service.will(
        "GET", JOB, as_json(job_json(), ETag='W/"4"', Retry_After="3"), Answer(304, headers={"ETag": 'W/"4"'})
    )
    first = client.poll(JOB_ID)
    assert (first.job is not None, first.etag, first.retry_after) == (True, 'W/"4"', 3.0)
    second = client.poll(JOB_ID, first.etag)
    assert (second.job, second.etag) == (None, 'W/"4"')
    assert service.asked[1].headers["if-none-match"] == 'W/"4"'


def test_lists_go_over_pages(service, client):
    pages = [
        as_json({"items": [job_json(name=f"{i}")], "next_cursor": cursor})
        for i, cursor in enumerate(["a b", "c", None])
    ]
    service.will("GET", "/api/v1/jobs", *pages)
    jobs = list(client.jobs(state="running", domain="qa", labels={"team": "x", "a:b": "y:z"}))
    assert [job.name for job in jobs] == ["0", "1", "2"]
    first, second, _ = (asked.query for asked in service.asked)
    assert first == {
        "state": ["running"],
        "domain": ["qa"],
        "label": ["team=x", '"a:b"=y:z'],
        "limit": ["100"],
    }
    assert second == first | {"cursor": ["a b"]}


def test_a_limit_ends_a_list(service, client):
    service.will("GET", "/api/v1/jobs", as_json({"items": [job_json()], "next_cursor": "more"}))
    assert len(list(client.jobs(limit=2))) == 2
    assert [asked.query["limit"] for asked in service.asked] == [["2"], ["1"]]


@pytest.mark.parametrize("action", ["cancel", "pause", "resume", "retry"])
def test_changes(service, client, action):
    service.will("POST", f"{JOB}/{action}", as_json(job_json("paused"), 202))
    assert getattr(client, action)(JOB_ID).state == "paused"


def test_priority_and_delete(service, client):
    service.will("PATCH", JOB, as_json(job_json(priority=9)))
    service.will("DELETE", JOB, Answer(204))
    assert client.set_priority(JOB_ID, 9).priority == 9
    client.delete(JOB_ID)
    assert json.loads(service.asked[0].body) == {"priority": 9}


def test_evaluations_as_rows_and_as_csv(service, client):
    row = {
        "skip": [1],
        "level": 1,
        "accept_length": 2.0,
        "accepted_drafts": 1.0,
        "metric": 0.5,
        "steps": 3,
        "tree_size": 1.0,
        "feasible": True,
        "evaluator": "live",
        "batch_split": False,
        "cached": False,
        "seconds": 0.1,
    }
    service.will(
        "GET",
        f"{JOB}/evaluations",
        as_json({"items": [row], "next_cursor": None}),
        Answer(200, b"skip,metric\n1,0.5\n", {"Content-Type": "text/csv"}),
    )
    (found,) = client.evaluations(JOB_ID, sort="metric", order="desc", level=1, feasible=True, limit=7)
    assert found.skip == [1]
    assert b"".join(client.evaluations_csv(JOB_ID, feasible=False)) == b"skip,metric\n1,0.5\n"
    rows, csv = (asked.query for asked in service.asked)
    assert rows == {
        "sort": ["metric"],
        "order": ["desc"],
        "level": ["1"],
        "feasible": ["true"],
        "limit": ["7"],
    }
    assert csv == {"sort": ["skip"], "order": ["asc"], "feasible": ["false"], "format": ["csv"]}


def test_an_answer_that_breaks_off(service, client):
    service.will(
        "GET", f"{JOB}/evaluations", Answer(200, b"skip\n", {"Content-Type": "text/csv"}, drops=True)
    )
    pieces = client.evaluations_csv(JOB_ID)
    assert next(pieces) == b"skip\n"
    with pytest.raises(ModelFailure, match="broke off its answer"):
        next(pieces)


def test_result_and_report(service, client):
    service.will("GET", f"{JOB}/result", as_json({"schema": "x"}), Answer(200, b"[]"))
    service.will("GET", f"{JOB}/report", Answer(200, "<p>é".encode(), {"Content-Type": "text/html"}))
    assert client.result(JOB_ID, per_prompt=True) == {"schema": "x"}
    assert service.asked[0].query == {"per_prompt": ["true"]}
    with pytest.raises(ModelFailure, match="answers no JSON object"):
        client.result(JOB_ID)
    assert client.report(JOB_ID) == "<p>é"


def test_uploads_are_opened_again_when_repeated(service, client, tmp_path):
    view = {
        "id": "s1",
        "name": "a.jsonl",
        "sha256": "0" * 64,
        "bytes": 3,
        "items": 1,
        "statistics": {},
        "created_at": NOW,
    }
    service.will("POST", "/api/v1/calibration-sets", problem(503), as_json(view, 201))
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"{}\n")
    assert client.upload_set(file).id == "s1"
    assert [asked.body for asked in service.asked] == [b"{}\n", b"{}\n"]
    client.upload_set(b"[]", name="mine")
    client.upload_set(file.rename(tmp_path / "b.CSV"))
    named, csv = service.asked[2:]
    assert (named.body, named.query, named.headers["content-type"]) == (
        *(b"[]", {"name": ["mine"]}, "application/x-ndjson"),
    )
    assert (csv.query, csv.headers["content-type"]) == ({"name": ["b.CSV"]}, "text/csv")
    with pytest.raises(NotFound, match="no file"):
        client.upload_set(tmp_path / "gone")


def test_an_id_stays_one_part_of_the_path(service, client):
    service.will("DELETE", "/api/v1/jobs/..%2Ftokens%2F1%3Fx", Answer(204))
    client.delete("../tokens/1?x")
    assert service.paths() == ["/api/v1/jobs/..%2Ftokens%2F1%3Fx"]
    for text in ("", ".", ".."):
        with pytest.raises(NotFound, match="no job"):
            client.delete(text)


@pytest.mark.parametrize("kind", ["targets", "drafts", "domains"])
def test_catalog(service, client, kind):
    entry = {"name": "a", "built_in": True, "definition": {}}
    service.will("GET", f"/api/v1/{kind}", as_json({"items": [entry], "next_cursor": None}))
    assert [found.name for found in getattr(client, kind)()] == ["a"]


def test_ready(service, client):
    ready = {"status": "ready", "database": True, "broker": True, "reconciler": True, "workers": {"cpu": 1}}
    service.will("GET", "/readyz", as_json(ready))
    assert client.ready().workers == {"cpu": 1}
