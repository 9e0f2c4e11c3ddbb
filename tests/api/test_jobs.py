from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from api import app as app_module
from models.lease import fail, release
from models.poison import dead_letter


def test_a_job_is_accepted_and_shown(caller, make_spec):
    made = caller.post("/jobs", json=make_spec(name="first", labels={"team": "a"}) | {"priority": 7})
    assert made.status_code == 202
    job = made.get_json()
    assert made.headers["Location"] == f"/api/v1/jobs/{job['id']}"
    assert made.headers["ETag"].startswith('W/"1-')
    assert (job["state"], job["priority"], job["name"]) == ("running", 7, "first")
    assert job["created_by"] == caller.user_id
    # Presets are filled in, so that a later change of theirs changes no job.
    assert job["spec"]["domain"]["metric"] == "f1"
    assert "priority" not in job["spec"]
    assert job["progress"] == {"done": 0, "total": 1, "rate": None, "eta_seconds": None}
    assert caller.get(f"/jobs/{job['id']}").get_json() == job


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"target": {"id": "nothing"}}, "target.id"),
        ({"target": {"id": "/etc/passwd"}}, "target.id"),
        ({"target": {"id": "../models/x"}}, "target.id"),
        ({"target": {"device": "tpu"}}, "target.device"),
        ({"target": {"revision": "main"}}, "target.revision"),
        ({"draft": {"method": "guess"}}, "draft.method"),
        ({"draft": {"params": {"num_tokens": 0}}}, "draft.params.num_tokens"),
        ({"draft": {"method": "sam", "params": {"corpus": "/etc/passwd"}}}, "draft.params.corpus"),
        ({"draft": {"method": "sam", "params": {"corpus": "words/a.txt"}}}, "draft.params.corpus"),
        ({"draft": {"method": "draft_model", "params": {}}}, "draft.params.model"),
        ({"draft": {"method": "draft_model", "params": {"model": "/etc"}}}, "draft.params.model"),
        ({"draft": {"method": "draft_model", "params": {"model": "../a/b"}}}, "draft.params.model"),
        ({"draft": {"method": "draft_model", "params": {"model": "unheard-of"}}}, "draft.params.model"),
        ({"draft": {"method": "specinfer", "params": {"models": "owner/name,/etc"}}}, "draft.params.models"),
        ({"draft": {"state": "run"}}, "draft.state"),
        ({"domain": {"name": "poems"}}, "domain.name"),
        ({"domain": {"metric": "beauty"}}, "domain.metric"),
        ({"domain": {"template": "letter"}}, "domain.template"),
        ({"domain": {"shots": 2, "template": "plain"}}, "domain.shots"),
        ({"calibration": {"source": "/etc/passwd"}}, "calibration.source"),
        ({"calibration": {"source": "words.jsonl"}}, "calibration.source"),
        ({"calibration": {"source": "sample:nothing"}}, "calibration.source"),
        ({"calibration": {"source": "set:nothing"}}, "calibration.source"),
        ({"calibration": {"category": "none"}}, "calibration.category"),
        ({"calibration": {"calibration_fraction": 0.999}}, "calibration.calibration_fraction"),
        ({"search": {"eps": 2}}, "search.eps"),
        ({"serach": {}}, "serach"),
        ({"priority": 12}, "priority"),
        ({"name": "a\u0000b"}, "name"),
        ({"target": 5}, "target"),
    ],
)
def test_what_cannot_run_is_refused_by_field(caller, bench, make_spec, change, field):
    answer = caller.post("/jobs", json=make_spec(**change))
    problem = answer.get_json()
    assert (answer.status_code, problem["field"]) == (422, field)
    assert problem["type"] == "urn:skipmap:problem:invalid-input"
    assert problem["detail"].startswith(field)
    assert bench.sql("SELECT count(*) FROM jobs") == [0]


def test_hub_names_are_taken_as_they_are(caller, make_spec):
    spec = make_spec(
        target={"id": "meta-llama/Llama-3.1-8B", "revision": "main"},
        calibration={"source": "owner/questions", "dataset_split": "test"},
    )
    answer = caller.post("/jobs", json=spec)
    assert answer.status_code == 202
    assert answer.get_json()["spec"]["calibration"]["format"] == "datasets"


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"a": NaN}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"target":' * 900 + b"1" + b"}" * 900, "application/json", 422),
        (b"[]", "application/json", 422),
        (b"{}", "text/plain", 415),
        (b'{"name": "' + b"x" * (1 << 20) + b'"}', "application/json", 413),
    ],
)
def test_bodies_that_are_no_spec(caller, body, content_type, status):
    answer = caller.post("/jobs", data=body, content_type=content_type)
    assert answer.status_code == status
    assert answer.mimetype == "application/problem+json"


def test_a_key_leads_to_the_first_job(caller, make_spec):
    def post(spec, key="k"):
        return caller.post("/jobs", json=spec, headers={"Idempotency-Key": key})

    first, again, other = post(make_spec()), post(make_spec()), post(make_spec(search={"eps": 0.1}))
    assert [first.status_code, again.status_code, other.status_code] == [202, 200, 422]
    assert again.get_json()["id"] == first.get_json()["id"]
    assert other.get_json()["type"].endswith("key-reused")
    assert post(make_spec(), key="").get_json()["field"] == "Idempotency-Key"


def test_a_key_leads_to_the_first_job_whatever_became_of_the_names_in_it(caller, make_spec, bench):
    def define(**params):
        caller.delete("/drafts/short")
        definition = {"method": "prompt_lookup", "params": params}
        assert caller.post("/drafts", json={"name": "short", "definition": definition}).status_code == 201

    def post(**more):
        spec = make_spec(draft={"method": "short"}, **more)
        return caller.post("/jobs", json=spec, headers={"Idempotency-Key": "k"})

    define(num_tokens=2)
    first = post()
    assert first.status_code == 202
    define(num_tokens=3)
    again = post()
    caller.delete("/drafts/short")
    gone = post()
    for answer in (again, gone):
        assert (answer.status_code, answer.get_json()["id"]) == (200, first.get_json()["id"])
        assert answer.get_json()["spec"]["draft"]["params"]["num_tokens"] == 2
    # Another body is another request, also where it comes to the same spec.
    assert post(search={"eps": 0.05}).get_json()["type"].endswith("key-reused")
    assert bench.sql("SELECT count(*) FROM jobs") == [1]


def test_twenty_requests_with_one_key_make_one_job(make_app, make_caller, make_spec, bench):
    caller = make_caller("jobs:write", app=make_app(api_pool_size=20))

    def post(_):
        return caller.post("/jobs", json=make_spec(), headers={"Idempotency-Key": "k"})

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(post, range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [202]
    assert len({answer.get_json()["id"] for answer in answers}) == 1
    assert bench.sql("SELECT count(*) FROM jobs") == [1]


def test_polls_are_answered_by_one_column(caller, bench, make_spec):
    job = caller.post("/jobs", json=make_spec()).get_json()
    path = f"/jobs/{job['id']}"
    tag = caller.get(path).headers["ETag"]
    unchanged = caller.get(path, headers={"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.data) == (304, b"")
    assert unchanged.headers["ETag"] == tag
    assert int(unchanged.headers["Retry-After"]) > 0
    bench.work()
    changed = caller.get(path, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != tag
    assert changed.headers["Cache-Control"] == "private, no-cache"


def test_a_poll_shows_what_comes_and_goes_without_an_event(caller, bench, make_spec):
    path = f"/jobs/{caller.post('/jobs', json=make_spec()).get_json()['id']}"
    seen = [caller.get(path)]

    def look():
        """The job, which must have changed since the last look, and no more by itself."""
        tag = seen[-1].headers["ETag"]
        seen.append(caller.get(path, headers={"If-None-Match": tag}))
        assert seen[-1].status_code == 200
        assert caller.get(path, headers={"If-None-Match": seen[-1].headers["ETag"]}).status_code == 304
        return seen[-1].get_json()

    events = bench.sql("SELECT count(*) FROM events")
    assert seen[0].get_json()["waiting_for"] == "no live worker"
    slot = bench.slot()
    assert look()["waiting_for"] is None
    claimed = bench.must_claim(slot)
    assert look()["chunks"] == {"running": 1}
    bench.database.transaction(release, claimed)
    assert look()["chunks"] == {"pending": 1}
    bench.must_claim(slot)
    look()
    bench.sql("UPDATE chunks SET claim_token = gen_random_uuid()")
    look()
    assert bench.sql("SELECT count(*) FROM events") == events


def test_an_ended_job_is_not_asked_for_again(caller, bench, make_spec):
    job_id = caller.post("/jobs", json=make_spec()).get_json()["id"]
    bench.work_off()
    whole = caller.get(f"/jobs/{job_id}")
    assert whole.headers["ETag"] == f'W/"{bench.job(job_id).last_event}"'
    unchanged = caller.get(f"/jobs/{job_id}", headers={"If-None-Match": whole.headers["ETag"]})
    assert [answer.status_code for answer in (whole, unchanged)] == [200, 304]
    assert not any("Retry-After" in answer.headers for answer in (whole, unchanged))


def test_work_that_was_set_aside_comes_with_its_attempts(caller, bench, make_spec):
    job_id = caller.post("/jobs", json=make_spec()).get_json()["id"]
    for owner, error in (("a/cpu-0", "out of memory"), ("b/cpu-0", "no such file")):
        claimed = bench.must_claim(bench.slot(owner))
        permanent = owner == "b/cpu-0"
        bench.database.transaction(fail, bench.settings, claimed, error, permanent=permanent)
        bench.sql("UPDATE chunks SET not_before = NULL")
    bench.database.transaction(dead_letter, bench.settings)
    (failed,) = caller.get(f"/jobs/{job_id}").get_json()["failed_chunks"]
    assert (failed["attempts"], failed["error"]) == (2, "no such file")
    assert [(one["outcome"], one["owner"], one["error"]) for one in failed["history"]] == [
        ("error", "a/cpu-0", "out of memory"),
        ("error", "b/cpu-0", "no such file"),
    ]
    assert failed["history"][0]["started_at"] < failed["history"][0]["ended_at"]


def test_a_row_that_others_hold_is_told_from_a_database_that_is_away(
    make_app, make_caller, bench, make_spec, monkeypatch
):
    monkeypatch.setattr(app_module, "_LOCK_SECONDS", 0.02)
    caller = make_caller("jobs:write", "jobs:read", app=make_app())
    job_id = caller.post("/jobs", json=make_spec()).get_json()["id"]

    def hold(session):
        session.execute(text("SELECT FROM jobs FOR UPDATE"))
        return caller.post(f"/jobs/{job_id}/pause")

    answer = bench.database.transaction(hold)
    assert (answer.status_code, answer.get_json()["type"]) == (503, "urn:skipmap:problem:unavailable")
    assert "others are changing the same thing" in answer.get_json()["detail"]
    assert int(answer.headers["Retry-After"]) > 0
    assert caller.post(f"/jobs/{job_id}/pause").status_code == 202


def test_a_job_is_shown_while_it_is_worked_on(caller, bench, make_spec):
    job_id = caller.post("/jobs", json=make_spec()).get_json()["id"]
    bench.reach("level")
    bench.sql('UPDATE levels SET pace = \'{"median": 2, "p80": 3}\'')
    job = caller.get(f"/jobs/{job_id}").get_json()
    assert [level["kind"] for level in job["levels"]] == ["dense", "single", "level"]
    left = job["level"]["total"] - job["level"]["done"]
    assert job["progress"]["rate"] == 0.5
    assert job["progress"]["eta_seconds"] == [left * 2, left * 3]
    assert job["best"]["metric"] == 0.8
    assert job["chunks"]["running"] == 1
    listed = caller.get("/jobs").get_json()["items"][0]
    assert {key: job[key] for key in listed} == listed


def test_lists_are_filtered_and_paged(caller, make_spec):
    made = []
    for number in range(5):
        labels = {"number": str(number), "odd": str(number % 2)}
        spec = make_spec(labels=labels, draft={"method": "sam" if number % 2 else "prompt_lookup"})
        made.append(caller.post("/jobs", json=spec).get_json()["id"])
    caller.post(f"/jobs/{made[0]}/cancel")

    def ids(query):
        answer = caller.get(f"/jobs?{query}")
        assert answer.status_code == 200
        return [job["id"] for job in answer.get_json()["items"]]

    assert ids("") == made[::-1]
    assert ids("state=running") == made[:0:-1]
    assert ids("draft=sam&target=smollm2-135m-instruct&domain=qa") == [made[3], made[1]]
    assert ids("label=odd=1&label=number=3") == ids("label=odd:1&label=number:3") == [made[3]]
    assert ids("domain=math") == ids("strategy=sleb") == []
    assert ids("strategy=tss") == made[::-1]
    first = caller.get("/jobs?limit=2&label=odd=0")
    assert [job["id"] for job in first.get_json()["items"]] == [made[4], made[2]]
    link = first.headers["Link"].removeprefix("</api/v1").removesuffix('>; rel="next"')
    last = caller.get(link)
    assert [job["id"] for job in last.get_json()["items"]] == [made[0]]
    assert last.get_json()["next_cursor"] is None
    assert "Link" not in last.headers


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "limit=1&limit=2",
        "state=sleeping",
        "sort=name",
        "cursor=abc",
        "cursor=WyJqb2JzIiwgIngiXQ",
        "label=odd",
        "target=%00",
        "target=",
    ],
)
def test_queries_that_make_no_sense(caller, query):
    answer = caller.get(f"/jobs?{query}")
    assert answer.status_code == 422
    assert answer.get_json()["field"] == query.partition("=")[0]


def test_control(caller, bench, make_spec):
    job_id = caller.post("/jobs", json=make_spec()).get_json()["id"]

    def send(action):
        answer = caller.post(f"/jobs/{job_id}/{action}")
        return answer.status_code, answer.get_json()["state"]

    assert send("retry") == (409, "running")
    assert send("pause") == (202, "pausing")
    assert send("resume") == (202, "running")
    assert caller.patch(f"/jobs/{job_id}", json={"priority": 9}).get_json()["priority"] == 9
    assert caller.delete(f"/jobs/{job_id}").get_json()["state"] == "running"
    assert send("cancel") == (202, "cancelling")
    assert send("pause") == (409, "cancelling")
    bench.sql("UPDATE chunks SET state = 'cancelled', finished_at = now() WHERE state = 'pending'")
    bench.sql("UPDATE levels SET state = 'cancelled', finished_at = now()")
    bench.sql("UPDATE jobs SET state = 'cancelled', finished_at = now()")
    assert caller.patch(f"/jobs/{job_id}", json={"priority": 9}).status_code == 409
    assert caller.delete(f"/jobs/{job_id}").status_code == 204
    assert caller.get(f"/jobs/{job_id}").status_code == 404
    actions = bench.sql("SELECT action FROM audit ORDER BY id")
    assert actions == [f"job.{a}" for a in ("submit", "pause", "resume", "priority", "cancel", "delete")]


def test_what_does_not_exist(caller):
    missing = "01900000-0000-7000-8000-000000000000"
    for path in (f"/jobs/{missing}", "/jobs/one", f"/jobs/{missing}/result", f"/jobs/{missing}/events"):
        answer = caller.get(path)
        assert answer.status_code == 404
        assert json.loads(answer.data)["type"] == "urn:skipmap:problem:not-found"
    assert caller.post(f"/jobs/{missing}/cancel").status_code == 404
    assert caller.get(f"/jobs/{missing}", headers={"If-None-Match": 'W/"1"'}).status_code == 404
